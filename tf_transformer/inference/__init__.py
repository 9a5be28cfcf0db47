"""Trained models applied to text: translation, completion, scores, alignment."""
