"""Estimates of the time, the cost and the memory of a training run."""
