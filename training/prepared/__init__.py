"""Prepared folders for big corpora: writing them, reading them, and the data service."""
