"""Training of language classifiers from text in known languages."""
