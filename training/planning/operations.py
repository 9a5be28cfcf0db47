"""Counts of weights and of floating-point operations of a model."""

import dataclasses

from tf_transformer.config import TransformerConfig
from tf_transformer.config_checks import GATED_ACTIVATIONS

# Forward and backward pass: two operations (multiply, add) for each weight in the forward pass, and
# twice as many in the backward pass, for the gradients of the inputs and of the weights.
_PER_WEIGHT = 6


@dataclasses.dataclass(frozen=True)
class Operations:
    """Floating-point operations of training, per position of a batch; padding costs the same.

    Args:
        source: operations per position of the source, without attention.
        target: operations per position of the target, without attention.
        source_attention: operations per position of the source and length of the source.
        target_attention: operations per position of the target and length of the target.
        cross_attention: operations per position of the target and length of the source.
    """

    source: float
    target: float
    source_attention: float
    target_attention: float
    cross_attention: float

    def of_pair(self, source_length: float, target_length: float) -> float:
        """Returns the operations of a pair of sentences, lengths in positions."""
        return (
            source_length * (self.source + self.source_attention * source_length)
            + target_length * (self.target + self.target_attention * target_length)
            + target_length * source_length * self.cross_attention
        )


def training_operations(config: TransformerConfig) -> Operations:
    """Counts the operations of the matrix products of a training step.

    Left out is what takes little of them: embeddings, norms, softmax and the optimizer.
    """
    encoder, decoder = config.side("encoder"), config.side("decoder")
    num_encoder = 0 if config.decoder_only else config.num_encoder_layers
    num_decoder = config.num_decoder_layers
    num_inner = 3 if config.activation in GATED_ACTIVATIONS else 2

    def width(side):
        return num_inner * side.d_model * side.d_ff

    own = 4 * decoder.d_model**2
    if config.decoder_autoregression != "self_attention":
        own = 2 * decoder.d_model**2  # a gate and a candidate
    cross = 0 if config.decoder_only else 2 * decoder.d_model**2
    target = num_decoder * (own + cross + width(decoder))
    target += decoder.d_model * config.target_vocab_size
    source = num_encoder * (4 * encoder.d_model**2 + width(encoder))
    if not config.decoder_only:  # keys and values of the cross-attention
        source += num_decoder * 2 * encoder.d_model * decoder.d_model
    attends = config.decoder_autoregression == "self_attention"
    # Scores and weighted sums.
    return Operations(
        source=_PER_WEIGHT * source,
        target=_PER_WEIGHT * target,
        source_attention=_PER_WEIGHT * num_encoder * 2 * encoder.d_model,
        target_attention=_PER_WEIGHT * num_decoder * 2 * decoder.d_model * attends,
        cross_attention=_PER_WEIGHT * num_decoder * 2 * decoder.d_model * (cross > 0),
    )
