"""The Transformer as a Keras model."""

from typing import Any

import keras
from keras import ops

from tf_transformer.config import TransformerConfig
from tf_transformer.errors import InputError
from tf_transformer.layers.encoder import Encoder
from tf_transformer.layers.layout import PADDED, Packed, SentenceLayout
from tf_transformer.layers.masks import (
    causal_attention_mask,
    check_padding_mask,
    hide_first_key,
    padding_attention_mask,
    padding_mask,
)
from tf_transformer.models.base import DecoderModel
from tf_transformer.models.states import ModelStates
from tf_transformer.text.special_ids import END_ID


@keras.saving.register_keras_serializable(package="tf_transformer")
class Transformer(DecoderModel):
    """The encoder-decoder model of "Attention Is All You Need".

    `call` computes the logits of all target positions at once, as in training. Translation calls
    `encode` once, then an `IncrementalDecoder` token by token. Both compute the same logits. The
    constructor creates all weights, so a new model can be compiled, trained and restored
    immediately. To use a `tf.distribute` strategy, construct the model in the strategy's scope.

    Args:
        config: the model's settings.
        **kwargs: those of `keras.Model`.

    Call arguments:
        inputs: `{"source": (batch, source_length), "target": (batch, target_length)}` int32 ids
            padded with 0 at the end. The target is the begin id, followed by the labels without
            the last.
        training: True applies dropout.

    Returns:
        The logits, `(batch, target_length, target_vocab_size)` float32.

    Raises:
        InputError: `config` is that of a decoder-only model.
    """

    input_keys = ("source", "target")

    def __init__(self, config: TransformerConfig, **kwargs: Any):
        super().__init__(config, **kwargs)
        if config.source_vocab_size is None:
            raise InputError(
                "A `Transformer` needs a configuration with a source. "
                "Received: source_vocab_size=None. Use a `LanguageModel`"
            )
        self.encoder = self._stack(Encoder, "encoder")
        self.source_embedding = (
            self.target_embedding
            if config.tied_embeddings in ("inputs", "all")
            else self._embedding("encoder", config.source_vocab_size, "source")
        )
        self.source_positions = self._positions("encoder", "source")
        self.source_embedding_norm = self._embedding_norm("encoder", "source")
        self.build(self.input_shapes)

    def _build_layers(self):
        if not self.source_embedding.built:
            self.source_embedding.build((None, None))
        if self.source_positions is not None:
            self.source_positions.build((None,))
        hidden_shape = (None, None, self.config.side("encoder").d_model)
        if self.source_embedding_norm is not None:
            self.source_embedding_norm.build(hidden_shape)
        self.encoder.build(hidden_shape)
        super()._build_layers()

    def call(self, inputs, training=None):
        source, target = self._ids(inputs)
        memory = self.encode(source, training)
        return self.decode(target, memory, self.source_mask(source), training)

    def source_mask(self, source):
        """Returns which tokens attention sees: source ids `(batch, source_length)` to bool.

        With `source_end=False` these are not the end ids, except that of an empty source.
        """
        mask = padding_mask(source)
        if self.config.source_end:
            return mask
        is_seen = ops.not_equal(source, END_ID)
        is_first = ops.equal(ops.arange(ops.shape(source)[1], dtype="int32"), 0)
        return ops.logical_and(mask, ops.logical_or(is_seen, is_first))

    def encode(self, source, training=None):
        """Encodes source ids `(batch, source_length)` as memory `(batch, source_length, d_model)`.

        Args:
            source: int32 ids padded with 0 at the end.
            training: True applies dropout.
        """
        return self.encoder(
            self._embed_source(source, training),
            padding_attention_mask(self.source_mask(source)),
            training=training,
        )

    def decode(self, target, memory, memory_padding_mask, training=None):
        """Computes the logits of every target position at once.

        Args:
            target: `(batch, target_length)` ids, the begin id first.
            memory: `(batch, source_length, d_model)`, the result of `encode`.
            memory_padding_mask: `(batch, source_length)` bool, the result of `source_mask`.
            training: True applies dropout.

        Returns:
            `(batch, target_length, target_vocab_size)` float32.

        Raises:
            InputError: `memory_padding_mask` is not boolean or has another shape.
        """
        return self.logits(self._decode(target, memory, memory_padding_mask, training))

    def _decode(self, target, memory, memory_padding_mask, training):
        check_padding_mask(memory_padding_mask, memory.shape[:2])
        return self.decoder(
            self._embed_target(target, training),
            memory,
            self._target_attention_mask(target),
            padding_attention_mask(memory_padding_mask),
            training=training,
        )

    def _target_attention_mask(self, target):
        """Returns which tokens each token sees: target ids `(batch, target_length)` to bool.

        Returns:
            `(batch, 1, target_length, target_length)`.
        """
        mask = causal_attention_mask(padding_mask(target))
        return hide_first_key(mask) if self.config.hides_begin else mask

    def hidden_states(self, inputs, training=None):
        """Computes the outputs of encoder and decoder, without the logits.

        Args:
            inputs: dictionary of ids, as for `call`.
            training: True applies dropout.

        Returns:
            The memory, `(batch, source_length, d_model)`, and the decoder's output,
            `(batch, target_length, d_model)`, from which `logits` computes the result of `call`.
        """
        source, target = self._ids(inputs)
        memory = self.encode(source, training)
        return memory, self._decode(target, memory, self.source_mask(source), training)

    def states(self, inputs, training=None) -> ModelStates:
        """Computes `call`, and returns hidden states and attention weights as well."""
        source, target = self._ids(inputs)
        source_mask = padding_attention_mask(self.source_mask(source))
        memory, encoder_states = self.encoder.states(
            self._embed_source(source, training), source_mask, training
        )
        hidden, decoder_states = self.decoder.states(
            self._embed_target(target, training),
            memory,
            self._target_attention_mask(target),
            source_mask,
            training,
        )
        return ModelStates(self.logits(hidden), encoder_states, decoder_states)

    def alignment(self, inputs):
        """Returns how much each target token attends to each source token.

        It is the cross-attention in the `alignment_layer` of the configuration, by the
        `alignment_head` that was trained for it or, without one, the mean over the heads.

        Args:
            inputs: dictionary of ids, as for `call`.

        Returns:
            `(batch, target_length, source_length)`.
        """
        weights = self.states(inputs).decoder.cross_attention[self.config.alignment_layer]
        head = self.config.alignment_head
        return ops.mean(weights, axis=1) if head is None else weights[:, head]

    def hidden_at(self, inputs, positions_mask, training=None):
        embedded, memory, masks, layout = self._packed(inputs, positions_mask, training)
        hidden = self.decoder(embedded, memory, *masks, training=training, layout=layout)
        return layout.select(hidden, positions_mask)

    def aligned_hidden_at(self, inputs, positions_mask, training=None):
        """Computes `hidden_at`, and returns the logarithm of the alignment as well.

        Args:
            inputs: dictionary of ids, as for `call`.
            positions_mask: `(batch, target_length)` bool, True at the positions to return.
            training: True applies dropout, but not to the logarithm.

        Returns:
            `(selected, d_model)`, the positions of all rows in sequence, and
            `(batch, target_length, source_length)` float32, the logarithm of the attention weights
            of the `alignment_head`; meaningless at padding of the target.

        Raises:
            InputError: the configuration has no `alignment_head`.
        """
        if self.config.alignment_head is None:
            raise InputError("`aligned_hidden_at` needs a model with an `alignment_head`")
        embedded, memory, masks, layout = self._packed(inputs, positions_mask, training)
        hidden, log_weights = self.decoder.align(
            embedded,
            memory,
            (self.config.alignment_layer, self.config.alignment_head),
            masks,
            training,
            layout,
        )
        return layout.select(hidden, positions_mask), log_weights

    def _packed(self, inputs, positions_mask, training):
        """Returns what the decoder takes: embedded target, memory, masks, and the layout."""
        source, target = self._ids(inputs)
        check_padding_mask(positions_mask, target.shape)
        source_mask, target_mask = self.source_mask(source), padding_mask(target)
        source_layout = Packed.from_padding_mask(source_mask)
        layout = Packed.from_padding_mask(
            ops.logical_or(target_mask, positions_mask), source_layout
        )
        memory = self.encoder(
            self._embed_source(source, training, source_layout),
            padding_attention_mask(source_mask),
            training=training,
            layout=source_layout,
        )
        masks = (self._target_attention_mask(target), padding_attention_mask(source_mask))
        return self._embed_target(target, training, layout), memory, masks, layout

    def _embed_source(self, source, training, layout: SentenceLayout = PADDED):
        return self._embed(source, self.source_embedding, "source", training, layout)
