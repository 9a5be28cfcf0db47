"""A decoder alone: the probability of each token given those before it."""

from typing import Any

import keras

from tf_transformer.config import TransformerConfig
from tf_transformer.decoder_model import DecoderModel
from tf_transformer.heads import HeadMasks
from tf_transformer.masks import causal_attention_mask, padding_mask
from tf_transformer.states import AttentionWeights


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
        return_hidden: True returns, in place of the logits, what they are computed from.

    Returns:
        logits, `(batch, target_length, target_vocab_size)` float32; with `return_attention` a pair
        of them and `AttentionWeights`; with `return_hidden` `(batch, target_length, d_model)`.

    Raises:
        ValueError: the configuration is that of an encoder-decoder model.
    """

    def __init__(self, config: TransformerConfig, **kwargs: Any):
        super().__init__(config, **kwargs)
        if not config.decoder_only:
            raise ValueError("A `LanguageModel` needs a configuration with `decoder_only=True`")
        self.build()

    def call(
        self,
        inputs,
        training=None,
        head_masks=None,
        return_attention=False,
        return_hidden=False,
    ):
        target = inputs["target"]
        head_masks = head_masks or HeadMasks()
        head_masks.check(self.config)
        outputs = self.decoder(
            self._embed(target, self.target_embedding, self.target_positions, training),
            attention_mask=causal_attention_mask(padding_mask(target)),
            training=training,
            head_masks=head_masks.decoder,
            return_states=return_attention and not return_hidden,
        )
        if return_hidden:
            return outputs
        if not return_attention:
            return self._logits(outputs)
        hidden, states = outputs
        return self._logits(hidden), AttentionWeights([], states.self_attention, [])
