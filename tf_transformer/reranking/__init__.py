"""Choosing among candidate translations: minimum Bayes risk, and scores of other models."""
