"""Word alignments: Pharaoh's format, words of pieces, symmetrization, and the error rate."""
