"""Search over token ids: beam search, sampling and caches of earlier tokens."""
