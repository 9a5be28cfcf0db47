"""Length buckets and their batch sizes: arithmetic alone."""


def bucket_boundaries(max_length: int, *, first: int = 8, growth: float = 1.15) -> list[int]:
    """Lengths at which a new bucket begins.

    Bucket i holds lengths from boundary i - 1 up to boundary i - 1 (exclusive). Widths grow in
    proportion to the length, so the share of padding is about the same in all.

    Args:
        max_length: longest length, in tokens.
        first: where the first bucket ends.
        growth: ratio of a boundary to the one before.

    Returns:
        Increasing boundaries; the last one is `max_length + 1`, so no length lies beyond it.
    """
    boundaries = []
    boundary = first
    while boundary <= max_length:
        boundaries.append(boundary)
        boundary = max(boundary + 1, round(boundary * growth))
    return [*boundaries, max_length + 1]


def bucket_batch_sizes(boundaries: list[int], batch_tokens: int) -> list[int]:
    """Pairs in a batch of each bucket, so that its longest pairs just fit the token budget.

    Args:
        boundaries: of `bucket_boundaries`.
        batch_tokens: the budget.

    Returns:
        One size for each bucket, and one more, never used, for lengths beyond the last boundary.
    """
    sizes = [max(1, batch_tokens // (boundary - 1)) for boundary in boundaries]
    return [*sizes, 1]
