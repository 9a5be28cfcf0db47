"""Noise in training text for robust models: letter case, end punctuation, typos, copied tokens."""
