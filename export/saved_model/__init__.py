"""The SavedModel: its signatures, its verification, and the files that accompany it."""
