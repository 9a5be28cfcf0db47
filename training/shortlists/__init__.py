"""Training of lexical shortlists from word alignments."""
