"""Identification of the language of a text, by the n-grams of its bytes."""
