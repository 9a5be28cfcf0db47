"""Marian's own format: `model.npz` or `.bin`, vocabularies, shortlists, and `decoder.yml`."""
