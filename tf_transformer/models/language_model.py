"""A decoder-only language model: the probability of each token given the previous tokens."""

from typing import Any

import keras
from keras import ops

from tf_transformer.config import TransformerConfig
from tf_transformer.errors import InputError
from tf_transformer.layers.layout import Packed
from tf_transformer.layers.masks import causal_attention_mask, check_padding_mask, padding_mask
from tf_transformer.models.base import DecoderModel
from tf_transformer.models.states import ModelStates


@keras.saving.register_keras_serializable(package="tf_transformer")
class LanguageModel(DecoderModel):
    """The Transformer's decoder without cross-attention, as a language model.

    Args:
        config: the model's settings, with `decoder_only=True`.
        **kwargs: those of `keras.Model`.

    Call arguments:
        inputs: `{"target": (batch, target_length)}` int32 ids padded with 0 at the end: the begin
            id, followed by the labels without the last.
        training: True applies dropout.

    Returns:
        The logits, `(batch, target_length, target_vocab_size)` float32.

    Raises:
        InputError: `config.decoder_only` is False.
    """

    def __init__(self, config: TransformerConfig, **kwargs: Any):
        super().__init__(config, **kwargs)
        if not config.decoder_only:
            raise InputError(
                "A `LanguageModel` needs a configuration with `decoder_only=True`. "
                "Received: decoder_only=False"
            )
        self.build(self.input_shapes)

    def call(self, inputs, training=None):
        (target,) = self._ids(inputs)
        return self.logits(
            self.decoder(
                self._embed_target(target, training),
                attention_mask=causal_attention_mask(padding_mask(target)),
                training=training,
            )
        )

    def states(self, inputs, training=None) -> ModelStates:
        """Computes `call`, and returns hidden states and attention weights as well."""
        (target,) = self._ids(inputs)
        hidden, states = self.decoder.states(
            self._embed_target(target, training),
            attention_mask=causal_attention_mask(padding_mask(target)),
            training=training,
        )
        return ModelStates(self.logits(hidden), None, states)

    def hidden_at(self, inputs, positions_mask, training=None):
        (target,) = self._ids(inputs)
        check_padding_mask(positions_mask, target.shape)
        mask = padding_mask(target)
        layout = Packed.from_padding_mask(ops.logical_or(mask, positions_mask))
        hidden = self.decoder(
            self._embed_target(target, training, layout),
            attention_mask=causal_attention_mask(mask),
            training=training,
            layout=layout,
        )
        return layout.select(hidden, positions_mask)
