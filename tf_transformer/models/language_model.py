"""A decoder alone: the probability of each token given those before it."""

from typing import Any

import keras
from keras import ops

from tf_transformer.config import TransformerConfig
from tf_transformer.layers.layer_states import AttentionWeights
from tf_transformer.layers.layout import Packing
from tf_transformer.layers.masks import causal_attention_mask, padding_mask
from tf_transformer.models.base import DecoderModel
from tf_transformer.models.head_pruning import HeadMasks


@keras.saving.register_keras_serializable(package="tf_transformer")
class LanguageModel(DecoderModel):
    """The Transformer's decoder without cross-attention, as a language model.

    Args:
        config: sizes and switches, with `decoder_only=True`.

    Call arguments:
        inputs: `{"target": (batch, target_length)}` int32 ids padded with 0 at the end: the labels
            shifted right behind the begin id.
        training: True applies dropout.
        head_masks: `HeadMasks`, to see what single heads do; None keeps all heads.
        return_attention: True also returns the attention weights.
        hidden_at: `(batch, target_length)` bool; returns, in place of the logits, what those at
            True are computed from. The model then computes with real tokens alone, see `Packing`.

    Returns:
        logits, `(batch, target_length, target_vocab_size)` float32; with `return_attention` a pair
        of them and `AttentionWeights`; with `hidden_at` `(number of True, d_model)`.

    Raises:
        ValueError: the configuration is that of an encoder-decoder model.
    """

    def __init__(self, config: TransformerConfig, **kwargs: Any):
        super().__init__(config, **kwargs)
        if not config.decoder_only:
            raise ValueError("A `LanguageModel` needs a configuration with `decoder_only=True`")
        self.build(self.input_shapes)

    def call(
        self,
        inputs,
        training=None,
        head_masks=None,
        return_attention=False,
        hidden_at=None,
    ):
        (target,) = self._ids(inputs)
        head_masks = head_masks or HeadMasks()
        head_masks.check(self.config)
        mask = padding_mask(target)
        packing = None
        if hidden_at is not None:
            packing = Packing.of_rows(ops.logical_or(mask, hidden_at))
        outputs = self.decoder(
            self._embed(target, self.target_embedding, self.target_positions, training, packing),
            attention_mask=causal_attention_mask(mask),
            training=training,
            head_masks=head_masks.decoder,
            return_states=return_attention and packing is None,
            packing=packing,
        )
        if packing is not None:
            return packing.choose(outputs, hidden_at)
        if not return_attention:
            return self._logits(outputs)
        hidden, states = outputs
        return self._logits(hidden), AttentionWeights([], states.self_attention, [])
