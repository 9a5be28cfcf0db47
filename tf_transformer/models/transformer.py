"""The Transformer as a Keras model."""

from typing import Any

import keras
from keras import ops

from tf_transformer.config import TransformerConfig
from tf_transformer.layers.encoder import Encoder
from tf_transformer.layers.layer_states import AttentionWeights
from tf_transformer.layers.layout import Packing
from tf_transformer.layers.masks import causal_attention_mask, padding_attention_mask, padding_mask
from tf_transformer.models.base import DecoderModel
from tf_transformer.models.head_pruning import HeadMasks


@keras.saving.register_keras_serializable(package="tf_transformer")
class Transformer(DecoderModel):
    """The encoder-decoder model of "Attention Is All You Need".

    `call` is the parallel pass of training; `encode`, then a `StepDecoder` token by token, is the
    pass of translation. Both compute the same logits. All weights exist
    from construction on, so a model can be compiled, fitted and restored at once, also under a
    `tf.distribute` strategy whose scope it was made in.

    Args:
        config: sizes and switches.

    Call arguments:
        inputs: `{"source": (batch, source_length), "target": (batch, target_length)}` int32 ids
            padded with 0 at the end; the target is the labels shifted right behind the begin id.
        training: True applies dropout.
        head_masks: `HeadMasks`, to see what single heads do; None keeps all heads.
        return_attention: True also returns the attention weights.
        hidden_at: `(batch, target_length)` bool; returns, in place of the logits, what those at
            True are computed from. The model then computes with real tokens alone, see `Packing`.

    Returns:
        logits, `(batch, target_length, target_vocab_size)` float32; with `return_attention` a pair
        of them and `AttentionWeights`; with `hidden_at` `(number of True, d_model)`.

    Raises:
        ValueError: the configuration is that of a decoder-only model.
    """

    input_keys = ("source", "target")

    def __init__(self, config: TransformerConfig, **kwargs: Any):
        super().__init__(config, **kwargs)
        if config.decoder_only:
            raise ValueError("A `decoder_only` configuration makes a `LanguageModel`")
        self.encoder = self._stack(Encoder, "encoder", num_layers=config.num_encoder_layers)
        self.source_embedding = (
            self.target_embedding
            if config.tied_embeddings in ("inputs", "all")
            else self._embedding("encoder", config.source_vocab_size, "source")
        )
        self.source_positions = self._positions("encoder", "source")
        self.build(self.input_shapes)

    def _build_layers(self):
        if not self.source_embedding.built:
            self.source_embedding.build((None, None))
        if self.source_positions is not None:
            self.source_positions.build((None,))
        self.encoder.build((None, None, self.config.side("encoder").d_model))
        super()._build_layers()

    def call(
        self,
        inputs,
        training=None,
        head_masks=None,
        return_attention=False,
        hidden_at=None,
    ):
        source, target = self._ids(inputs)
        head_masks = head_masks or HeadMasks()
        head_masks.check(self.config)
        if hidden_at is not None:
            return self._hidden_at(hidden_at, source, target, training, head_masks)
        if not return_attention:
            memory = self._encode(source, training, head_masks)
            return self._decode(target, memory, padding_mask(source), training, head_masks)
        memory, encoder_states = self._encode(source, training, head_masks, return_states=True)
        logits, decoder_states = self._decode(
            target, memory, padding_mask(source), training, head_masks, return_states=True
        )
        return logits, AttentionWeights(
            encoder=encoder_states.attention,
            decoder=decoder_states.self_attention,
            cross=decoder_states.cross_attention,
        )

    def encode(self, source, training=None, return_states=False):
        """Source ids `(batch, source_length)` to memory `(batch, source_length, d_model)`.

        With `return_states` a pair of the memory and `EncoderStates`.
        """
        return self._encode(source, training, HeadMasks(), return_states)

    def _encode(self, source, training, head_masks, return_states=False, packing=None):
        return self.encoder(
            self._embed(source, self.source_embedding, self.source_positions, training, packing),
            padding_attention_mask(padding_mask(source)),
            training=training,
            head_masks=head_masks.encoder,
            return_states=return_states,
            packing=packing,
        )

    def decode(self, target, memory, memory_padding_mask, training=None):
        """Logits of every target position at once.

        Args:
            target: `(batch, target_length)` ids, the begin id first.
            memory: `(batch, source_length, d_model)`.
            memory_padding_mask: `(batch, source_length)` bool, True at real tokens.
            training: True applies dropout.

        Returns:
            `(batch, target_length, target_vocab_size)` float32.
        """
        return self._decode(target, memory, memory_padding_mask, training, HeadMasks())

    def _decode(
        self, target, memory, memory_padding_mask, training, head_masks, return_states=False
    ):
        outputs = self._hidden(
            target, memory, memory_padding_mask, training, head_masks, return_states
        )
        if not return_states:
            return self._logits(outputs)
        hidden, states = outputs
        return self._logits(hidden), states

    def _hidden_at(self, wanted, source, target, training, head_masks):
        source_mask = padding_mask(source)
        source_packing = Packing.of_rows(source_mask)
        packing = Packing.of_rows(ops.logical_or(padding_mask(target), wanted))
        memory = self._encode(source, training, head_masks, packing=source_packing)
        hidden = self._hidden(
            target,
            memory,
            source_mask,
            training,
            head_masks,
            packing=packing,
            memory_packing=source_packing,
        )
        return packing.choose(hidden, wanted)

    def _hidden(
        self,
        target,
        memory,
        memory_padding_mask,
        training,
        head_masks,
        return_states=False,
        packing=None,
        memory_packing=None,
    ):
        return self.decoder(
            self._embed(target, self.target_embedding, self.target_positions, training, packing),
            memory,
            causal_attention_mask(padding_mask(target)),
            padding_attention_mask(memory_padding_mask),
            training=training,
            head_masks=head_masks.decoder,
            cross_head_masks=head_masks.cross,
            return_states=return_states,
            packing=packing,
            memory_packing=memory_packing,
        )
