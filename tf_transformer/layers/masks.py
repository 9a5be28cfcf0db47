"""Attention masks: boolean everywhere, True = may attend."""

import keras
from keras import ops

from tf_transformer.errors import InputError
from tf_transformer.text.special_ids import PAD_ID

# Added to the scores of masked keys. It is far below any score, so that their weight is exactly 0,
# and finite, so that a query whose keys are all masked gives finite outputs.
_MASKED_SCORE = -1e9


def padding_mask(ids: keras.KerasTensor) -> keras.KerasTensor:
    """Returns True at real tokens, False at padding: `(batch, length)` ids to bool."""
    return ops.not_equal(ids, PAD_ID)


def causal_mask(length: int) -> keras.KerasTensor:
    """Returns True where key <= query, which hides later positions: `(length, length)` bool."""
    positions = ops.arange(length, dtype="int32")
    return positions[:, None] >= positions[None, :]


def padding_attention_mask(mask: keras.KerasTensor) -> keras.KerasTensor:
    """Returns a mask of the real keys for all queries.

    Args:
        mask: padding mask, `(batch, length)` bool.

    Returns:
        `(batch, 1, 1, length)` bool.
    """
    return mask[:, None, None, :]


def causal_attention_mask(mask: keras.KerasTensor) -> keras.KerasTensor:
    """Returns a mask that lets query i attend to the real keys up to position i.

    Args:
        mask: padding mask, `(batch, length)` bool.

    Returns:
        `(batch, 1, length, length)` bool.
    """
    return ops.logical_and(padding_attention_mask(mask), causal_mask(ops.shape(mask)[1]))


def attention_bias(attention_mask: keras.KerasTensor) -> keras.KerasTensor:
    """Returns the bias to add to the scores: 0 where the mask is True, -1e9 elsewhere; float32.

    Raises:
        InputError: the mask is not boolean, such as a bias itself; it would be inverted.
    """
    if (dtype := keras.backend.standardize_dtype(attention_mask.dtype)) != "bool":
        raise InputError(
            f"attention masks must be boolean, True where a position may attend. Received: {dtype}"
        )
    zero, masked = (ops.cast(score, "float32") for score in (0.0, _MASKED_SCORE))
    return ops.where(attention_mask, zero, masked)
