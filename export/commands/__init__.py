"""The commands that use and export a trained model."""
