"""Attention masks: boolean everywhere, True = may attend.

A mask of two axes could be `(batch, length)` or `(query_length, key_length)`, and broadcasting
would decide silently if both fit. So padding masks have two axes, `(batch, length)`, and layers
take masks of four, `(batch, num_heads, query_length, key_length)`: `padding_attention_mask` and
`causal_attention_mask` make these of padding masks. Any other mask is refused.
"""

from collections.abc import Sequence
from typing import Any

import keras
from keras import ops

from tf_transformer.errors import InputError
from tf_transformer.private_interfaces import CompositeLayer
from tf_transformer.text.special_ids import PAD_ID

# Added to the scores of masked keys. It is far below any score, so that their weight is exactly 0,
# and finite, so that a query whose keys are all masked gives finite outputs.
_MASKED_SCORE = -1e9


def padding_mask(ids: keras.KerasTensor) -> keras.KerasTensor:
    """Returns True at real tokens, False at padding: `(batch, length)` ids to bool."""
    return ops.not_equal(ids, PAD_ID)


def causal_mask(length: int) -> keras.KerasTensor:
    """Returns True where key <= query, which hides later positions: `(length, length)` bool.

    `causal_attention_mask` combines it with a padding mask. A layer takes it with the axes of batch
    and heads, `causal_mask(length)[None, None]`.
    """
    positions = ops.arange(length, dtype="int32")
    return positions[:, None] >= positions[None, :]


def padding_attention_mask(mask: keras.KerasTensor) -> keras.KerasTensor:
    """Returns a mask of the real keys for all queries.

    Args:
        mask: padding mask, `(batch, length)` bool.

    Returns:
        `(batch, 1, 1, length)` bool.

    Raises:
        InputError: `mask` is not a padding mask.
    """
    check_padding_mask(mask)
    return mask[:, None, None, :]


def causal_attention_mask(mask: keras.KerasTensor) -> keras.KerasTensor:
    """Returns a mask that lets query i attend to the real keys up to position i.

    Args:
        mask: padding mask, `(batch, length)` bool.

    Returns:
        `(batch, 1, length, length)` bool.

    Raises:
        InputError: `mask` is not a padding mask.
    """
    return ops.logical_and(padding_attention_mask(mask), causal_mask(ops.shape(mask)[1]))


def hide_first_key(attention_mask: Any) -> Any:
    """Hides the first position from all later ones.

    Args:
        attention_mask: `(batch, 1, length, length)` bool.

    Returns:
        The mask, of the same shape.
    """
    positions = ops.arange(ops.shape(attention_mask)[-1], dtype="int32")
    is_seen = ops.logical_or(positions[None, :] > 0, positions[:, None] == 0)
    return ops.logical_and(attention_mask, is_seen)


def attention_bias(attention_mask: Any, shape: Sequence[int | None]) -> Any:
    """Returns the bias to add to the scores: 0 where the mask is True, -1e9 elsewhere; float32.

    Args:
        attention_mask: see `check_attention_mask`.
        shape: shape of the scores.

    Raises:
        InputError: as `check_attention_mask`.
    """
    check_attention_mask(attention_mask, shape)
    zero, masked = (ops.cast(score, "float32") for score in (0.0, _MASKED_SCORE))
    return ops.where(attention_mask, zero, masked)


def check_padding_mask(mask: Any, shape: Sequence[int | None] = (None, None)) -> None:
    """Checks a padding mask, as far as its shape is known.

    Args:
        mask: boolean, `(batch, length)`.
        shape: its expected shape.

    Raises:
        InputError: the mask is not boolean or has another shape.
    """
    _check_boolean(mask)
    found = _shape_of(mask)
    if not _agree(found, shape):
        raise InputError(
            f"a padding mask must have the shape (batch, length), here {_shown(shape)}. "
            f"Received: {_shown(found)}"
        )


def check_attention_mask(attention_mask: Any, shape: Sequence[int | None]) -> None:
    """Checks an attention mask, as far as shapes are known; adds nothing to a graph.

    Args:
        attention_mask: boolean, True = may attend. It has as many axes as the scores, each of the
            same length or 1.
        shape: shape of the scores, `(batch, num_heads, query_length, key_length)` in a layer.

    Raises:
        InputError: the mask is not boolean, such as a bias itself, which would be inverted; or it
            has another shape.
    """
    _check_boolean(attention_mask)
    found = _shape_of(attention_mask)
    if _agree(found and [None if length == 1 else length for length in found], shape):
        return
    axes = "(batch, num_heads, query_length, key_length)" if len(shape) == 4 else "the scores' axes"
    raise InputError(
        f"an attention mask must have {axes}, here {_shown(shape)}, each of that length or 1. "
        f"Received: {_shown(found)}. From a padding mask, (batch, length), make one with "
        "`padding_attention_mask(mask)`, or `causal_attention_mask(mask)` to hide later positions, "
        "too; give one of (query_length, key_length) as `mask[None, None]`"
    )


def _check_boolean(mask):
    dtype = getattr(mask, "dtype", None)
    name = type(mask).__name__ if dtype is None else keras.backend.standardize_dtype(dtype)
    if name != "bool":
        raise InputError(
            "attention masks must be boolean tensors, True where a position may attend. "
            f"Received: {name}"
        )


def _shape_of(tensor):
    """Returns the shape, with None for unknown lengths; None if the rank is unknown."""
    shape = tensor.shape
    return None if getattr(shape, "rank", 0) is None else tuple(shape)


def _agree(found, expected):
    """Returns whether shapes have the same rank, and the same lengths where both are known."""
    if found is None or len(found) != len(expected):
        return False
    return all(None in pair or pair[0] == pair[1] for pair in zip(found, expected, strict=True))


def _shown(shape):
    """Returns a shape as text, with `?` for what is unknown."""
    if shape is None:
        return "an unknown number of axes"
    lengths = ["?" if length is None else str(length) for length in shape]
    return f"({', '.join(lengths)}{',' * (len(lengths) == 1)})"


class MaskedLayer(CompositeLayer):
    """Base class of layers that take attention masks.

    The masks are checked where they are added to the scores. In a functional model Keras only
    computes the shape of a layer's output; this class checks the masks there, too.
    """

    def masks_of_call(self, inputs, *arguments, **options):
        """Returns the masks of a call, each with the inputs that are its queries and its keys."""
        mask = arguments[0] if arguments else options.get("attention_mask")
        return [(mask, inputs, inputs)]

    def compute_output_spec(self, *arguments, **options):
        for mask, queries, keys in self.masks_of_call(*arguments, **options):
            if mask is not None:
                check_attention_mask(
                    mask, (queries.shape[0], None, queries.shape[1], keys.shape[1])
                )
        return super().compute_output_spec(*arguments, **options)
