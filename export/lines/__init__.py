"""Lines of text in, results out: batches as they arrive, outputs that can be resumed, progress."""
