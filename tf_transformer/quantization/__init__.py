"""Faster matrix products for decoding: 8-bit integers and tiled weights."""
