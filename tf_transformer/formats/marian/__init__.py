"""Marian's own format: `model.npz` with its settings, vocabularies, and `decoder.yml`."""
