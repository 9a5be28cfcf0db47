"""What a stack shows of its inside on request."""

from typing import Any, NamedTuple


class EncoderStates(NamedTuple):
    """What lies between the layers of an encoder.

    Attributes:
        hidden: the embedding and the output of every layer, N + 1 of
            `(batch, source_length, d_model)`.
        attention: weights of every layer, N of `(batch, num_heads, source_length, source_length)`.
    """

    hidden: list[Any]
    attention: list[Any]


class DecoderStates(NamedTuple):
    """What lies between the layers of a decoder.

    Attributes:
        hidden: the embedding and the output of every layer, N + 1 of
            `(batch, target_length, d_model)`.
        self_attention: weights of every layer, N of
            `(batch, num_heads, target_length, target_length)`.
        cross_attention: N of `(batch, cross_num_heads, target_length, source_length)`; none in a
            decoder without cross-attention.
    """

    hidden: list[Any]
    self_attention: list[Any]
    cross_attention: list[Any]


class AttentionWeights(NamedTuple):
    """Attention weights of every layer and head, one array a layer.

    Attributes:
        encoder: N of `(batch, num_heads, source_length, source_length)`.
        decoder: N of `(batch, num_heads, target_length, target_length)`.
        cross: N of `(batch, cross_num_heads, target_length, source_length)`.
    """

    encoder: list[Any]
    decoder: list[Any]
    cross: list[Any]
