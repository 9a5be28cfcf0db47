"""Synthetic parallel text: a teacher's translations of a corpus, and back-translations."""
