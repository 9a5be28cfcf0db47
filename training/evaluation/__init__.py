"""Scores of a finished model, their significance, and tables of runs."""
