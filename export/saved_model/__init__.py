"""The SavedModel: signatures, verification, and the files around it."""
