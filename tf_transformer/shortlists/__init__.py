"""Lexical shortlists: the few target pieces that a search considers for a source."""
