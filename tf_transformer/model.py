"""The Transformer as a Keras model."""

import dataclasses
from typing import Any

import keras
from keras import ops

from tf_transformer.config import TransformerConfig
from tf_transformer.decoder import Decoder
from tf_transformer.dropout import Dropout
from tf_transformer.embedding import TokenEmbedding
from tf_transformer.encoder import Encoder
from tf_transformer.masks import causal_attention_mask, padding_attention_mask, padding_mask
from tf_transformer.positions import sinusoidal_positions


@keras.saving.register_keras_serializable(package="tf_transformer")
class Transformer(keras.Model):
    """The encoder-decoder model of "Attention Is All You Need".

    `call` is the parallel pass of training; `encode`, then `start_decoding` once and `decode_step`
    for every token, is the pass of translation. Both compute the same logits. All weights exist
    from construction on, so a model can be compiled, fitted and restored at once, also under a
    `tf.distribute` strategy whose scope it was made in.

    Args:
        config: sizes and switches.

    Call arguments:
        inputs: `{"source": (batch, source_length), "target": (batch, target_length)}` int32 ids
            padded with 0 at the end; the target is the labels shifted right behind the begin id.
        training: True applies dropout.

    Returns:
        logits, `(batch, target_length, target_vocab_size)` float32.
    """

    def __init__(self, config: TransformerConfig, **kwargs: Any):
        super().__init__(**kwargs)
        self.config = config
        layer_arguments = dict(
            num_heads=config.num_heads,
            d_ff=config.d_ff,
            dropout_rate=config.dropout_rate,
            attention_dropout_rate=config.attention_dropout_rate,
            feed_forward_dropout_rate=config.feed_forward_dropout_rate,
            norm_position=config.norm_position,
            layer_norm_epsilon=config.layer_norm_epsilon,
            dtype=self.dtype_policy,
        )
        self.source_embedding = self._embedding(config.source_vocab_size, "source_embedding")
        self.target_embedding = (
            self.source_embedding
            if config.tied_embeddings == "all"
            else self._embedding(config.target_vocab_size, "target_embedding")
        )
        self.embedding_dropout = Dropout(
            config.dropout_rate, dtype=self.dtype_policy, name="embedding_dropout"
        )
        self.encoder = Encoder(
            num_layers=config.num_encoder_layers, name="encoder", **layer_arguments
        )
        self.decoder = Decoder(
            num_layers=config.num_decoder_layers, name="decoder", **layer_arguments
        )
        if config.tied_embeddings == "none":
            self.logits_projection = keras.layers.Dense(
                config.target_vocab_size, dtype="float32", name="logits_projection"
            )
        self.build()

    def _embedding(self, vocab_size: int, name: str) -> TokenEmbedding:
        return TokenEmbedding(
            vocab_size=vocab_size, d_model=self.config.d_model, dtype=self.dtype_policy, name=name
        )

    def build(self, input_shape=None):
        hidden_shape = (None, None, self.config.d_model)
        self.source_embedding.build()
        if self.target_embedding is not self.source_embedding:
            self.target_embedding.build()
        self.encoder.build(hidden_shape)
        self.decoder.build(hidden_shape)
        if self.config.tied_embeddings == "none":
            self.logits_projection.build(hidden_shape)
        self.built = True

    def call(self, inputs, training=None):
        source, target = inputs["source"], inputs["target"]
        memory = self.encode(source, training=training)
        return self.decode(target, memory, padding_mask(source), training=training)

    def encode(self, source, training=None):
        """Source ids `(batch, source_length)` to memory `(batch, source_length, d_model)`."""
        hidden = self._embed(self.source_embedding, source, training)
        return self.encoder(hidden, padding_attention_mask(padding_mask(source)), training=training)

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
        hidden = self.decoder(
            self._embed(self.target_embedding, target, training),
            memory,
            causal_attention_mask(padding_mask(target)),
            padding_attention_mask(memory_padding_mask),
            training=training,
        )
        return self._logits(hidden)

    def start_decoding(self, memory, beam_size: int = 1):
        """Prepares token-by-token decoding.

        Args:
            memory: `(batch, source_length, d_model)`.
            beam_size: hypotheses a sentence.

        Returns:
            cache: a list of one dict a layer, empty keys and values
                `(batch, beam_size, num_heads, 0, head_dim)`. A search reorders its first two axes.
            projected_memory: a list of one dict a layer, keys and values of the memory
                `(batch, num_heads, source_length, head_dim)`, the same for every hypothesis.
        """
        cache = self.decoder.empty_cache(ops.shape(memory)[0], beam_size)
        return cache, self.decoder.project_memory(memory)

    def decode_step(self, ids, cache, projected_memory, memory_padding_mask):
        """Logits of the token that follows `ids`.

        Args:
            ids: `(batch, beam)`, the newest token of every hypothesis, the begin id first.
            cache: of `start_decoding` or of the step before.
            projected_memory: of `start_decoding`.
            memory_padding_mask: `(batch, source_length)` bool, True at real tokens.

        Returns:
            logits `(batch, beam, target_vocab_size)` float32, and the cache with these tokens.
        """
        position = ops.shape(cache[0]["key"])[3]
        encoding = sinusoidal_positions(ops.reshape(position, (1,)), self.config.d_model)
        hidden = ops.cast(self.target_embedding(ids) + encoding, self.compute_dtype)
        hidden, cache = self.decoder.step(
            hidden, cache, projected_memory, padding_attention_mask(memory_padding_mask)
        )
        return self._logits(hidden), cache

    def _embed(self, embedding, ids, training):
        positions = ops.arange(ops.shape(ids)[1])
        hidden = embedding(ids) + sinusoidal_positions(positions, self.config.d_model)
        return self.embedding_dropout(ops.cast(hidden, self.compute_dtype), training=training)

    def _logits(self, hidden):
        if self.config.tied_embeddings == "none":
            return self.logits_projection(hidden)
        return self.target_embedding.logits(hidden)

    def compute_output_shape(self, input_shape):
        return (*input_shape["target"], self.config.target_vocab_size)

    def _maybe_symbolic_build(self, iterator=None, data_batch=None):
        """Builds the optimizer, all that is not built yet, inside the strategy's scope.

        Keras would take a batch from the data and average it over the replicas, which fails where
        the batch does not split evenly, and on several workers.
        """
        if self._distribute_strategy is not None and self.optimizer is not None:
            with self._distribute_strategy.scope():
                if not self.optimizer.built:
                    self.optimizer.build(self.trainable_variables)

    def get_config(self):
        return super().get_config() | {"config": dataclasses.asdict(self.config)}

    @classmethod
    def from_config(cls, config, custom_objects=None):
        config = dict(config)
        return cls(TransformerConfig(**config.pop("config")), **config)
