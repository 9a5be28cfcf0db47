"""Weights in other forms for decoding: 8-bit integers and column tiles."""
