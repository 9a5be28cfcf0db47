"""Byte-level BPE, as of GPT-2 and BART: a character for each byte, and the parts of a text."""
