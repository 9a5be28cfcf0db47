"""Greedy search that takes several tokens in a step, by a model with draft heads."""
