"""Word alignments of parallel text, by the attention of trained models."""
