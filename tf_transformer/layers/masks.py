"""Masks. One convention everywhere: boolean, True = may attend."""

import keras
from keras import ops

from tf_transformer.text.special_ids import PAD_ID

# Added to the scores of masked keys: far below any score, so that their weight is exactly 0, and
# finite, so that a query whose keys are all masked stays finite too.
_MASKED_SCORE = -1e9


def padding_mask(ids: keras.KerasTensor) -> keras.KerasTensor:
    """True at real tokens, False at padding: `(batch, length)` ids to `(batch, length)` bool."""
    return ops.not_equal(ids, PAD_ID)


def causal_mask(length: int) -> keras.KerasTensor:
    """True where key <= query, so that no position sees a later one: `(length, length)` bool."""
    positions = ops.arange(length, dtype="int32")
    return positions[:, None] >= positions[None, :]


def padding_attention_mask(mask: keras.KerasTensor) -> keras.KerasTensor:
    """Lets every query attend to the real keys: `(batch, length)` to `(batch, 1, 1, length)`."""
    return mask[:, None, None, :]


def causal_attention_mask(mask: keras.KerasTensor) -> keras.KerasTensor:
    """Lets query i attend to the real keys up to i.

    Args:
        mask: padding mask `(batch, length)`.

    Returns:
        `(batch, 1, length, length)` bool.
    """
    return ops.logical_and(padding_attention_mask(mask), causal_mask(ops.shape(mask)[1]))


def attention_bias(attention_mask: keras.KerasTensor) -> keras.KerasTensor:
    """What is added to the scores: 0 where the mask is True, -1e9 elsewhere; float32."""
    zero, masked = (ops.cast(score, "float32") for score in (0.0, _MASKED_SCORE))
    return ops.where(attention_mask, zero, masked)
