"""Tuning of training settings and search options on the validation set, by Optuna."""
