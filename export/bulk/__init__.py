"""Translating large files by Apache Beam, with a SavedModel in every worker."""
