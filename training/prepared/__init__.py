"""Prepared folders of large corpora: reading and checking them, and the data service."""
