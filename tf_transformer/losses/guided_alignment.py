"""Guided alignment: one head of the cross-attention learns given word alignments.

Chen et al., 2016; Garg et al., 2019, equation 4: with the attention weights A of the head and the
alignment G, whose rows are divided by their sums,

L = -1/m sum_j sum_i G_ji log A_ji

for the target tokens j and the source tokens i; a target token that is aligned with none has no
loss. The loss of training is the cross-entropy plus a weight times L.

Deviation: m is the number of target tokens of the global batch, not of a sentence, as in the
cross-entropy, so that a token has the same weight in a sentence of any length.
"""

from typing import Any

from keras import ops


def alignment_losses(log_weights: Any, alignment: Any) -> tuple[Any, Any]:
    """Computes -sum_i G_ji log A_ji of each target token j.

    Args:
        log_weights: log A, `(batch, target_length, source_length)` float32.
        alignment: `(batch, target_length, source_length)` bool, True where the tokens are aligned:
            G before the division.

    Returns:
        `(batch, target_length)` float32, in nats, 0 for tokens that are aligned with none; and
        whether a token is aligned, `(batch, target_length)` float32.
    """
    links = ops.cast(alignment, "float32")
    numbers = ops.sum(links, axis=-1)
    # What is masked in A may be -1e9, and padding anything, so both must not be multiplied by 0.
    sums = ops.sum(ops.where(alignment, log_weights, 0.0), axis=-1)
    return -sums / ops.maximum(numbers, 1.0), ops.cast(numbers > 0, "float32")
