"""What a trained model answers: each task with its inputs, its outputs and their computation."""
