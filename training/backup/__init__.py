"""Backups of model directories on object storage: uploading, checking and restoring."""
