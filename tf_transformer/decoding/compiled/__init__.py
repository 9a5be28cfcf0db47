"""Searches that XLA compiles: for which shapes, and when."""
