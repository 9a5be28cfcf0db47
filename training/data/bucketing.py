"""Arithmetic of length buckets and their batch sizes."""


def bucket_boundaries(max_length: int, *, first: int = 8, growth: float = 1.15) -> list[int]:
    """Returns the lengths at which a new bucket begins.

    Bucket i holds the lengths n with `boundaries[i - 1] <= n < boundaries[i]`. Widths grow in
    proportion to the length, so that the share of padding is about the same in all buckets.

    Args:
        max_length: maximum length, in tokens.
        first: the first boundary.
        growth: ratio of a boundary to the previous one.

    Returns:
        Increasing boundaries; the last one is `max_length + 1`, so every length is below it.
    """
    boundaries = []
    boundary = first
    while boundary <= max_length:
        boundaries.append(boundary)
        boundary = max(boundary + 1, round(boundary * growth))
    return [*boundaries, max_length + 1]


def bucket_batch_sizes(
    boundaries: list[int], batch_tokens: int, batch_sentences: int | None = None
) -> list[int]:
    """Returns the batch size of each bucket, with which its longest pairs fit the token budget.

    Args:
        boundaries: the result of `bucket_boundaries`.
        batch_tokens: the budget; a bucket of longer pairs gets batch size 1.
        batch_sentences: the size of all batches, in place of the budget.

    Returns:
        One size per bucket, and an unused one for lengths beyond the last boundary, which
        `tf.data.Dataset.bucket_by_sequence_length` requires.
    """
    if batch_sentences is not None:
        return [batch_sentences] * (len(boundaries) + 1)
    sizes = [max(1, batch_tokens // (boundary - 1)) for boundary in boundaries]
    return [*sizes, 1]
