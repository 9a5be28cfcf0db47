"""Options of the commands that use a trained model, and what they do."""
