"""Confidence: how probable it is that words of a translation are right."""
