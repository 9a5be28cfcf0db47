"""Intermediate results of a model."""

from typing import Any, NamedTuple

from tf_transformer.layers.decoder import DecoderStates
from tf_transformer.layers.encoder import EncoderStates


class AttentionWeights(NamedTuple):
    """Attention weights of every layer and head, one array per layer.

    Attributes:
        encoder: N arrays of `(batch, num_heads, source_length, source_length)`.
        decoder: N arrays of `(batch, num_heads, target_length, target_length)`; empty without
            self-attention.
        cross: N arrays of `(batch, cross_num_heads, target_length, source_length)`.
    """

    encoder: list[Any]
    decoder: list[Any]
    cross: list[Any]


class ModelStates(NamedTuple):
    """The logits of a model and its intermediate results.

    Attributes:
        logits: `(batch, target_length, target_vocab_size)` float32.
        encoder: intermediate results of the encoder; None in a language model.
        decoder: intermediate results of the decoder.
    """

    logits: Any
    encoder: EncoderStates | None
    decoder: DecoderStates

    @property
    def attention(self) -> AttentionWeights:
        """The attention weights of all layers."""
        return AttentionWeights(
            self.encoder.attention if self.encoder is not None else [],
            self.decoder.self_attention,
            self.decoder.cross_attention,
        )
