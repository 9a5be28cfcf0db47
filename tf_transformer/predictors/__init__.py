"""Three ways to run the tasks of a trained model: its directory, a SavedModel, a server."""
