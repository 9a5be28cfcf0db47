"""Search over token ids: beam search, sampling and the key-value cache."""
