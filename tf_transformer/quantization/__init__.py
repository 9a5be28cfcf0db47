"""Weights prepared for decoding: 8-bit integers, tiles, and folded norms."""
