"""Parallel text in, a trained model directory out."""
