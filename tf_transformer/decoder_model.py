"""What every model of this project has: a target embedding, a decoder and logits."""

import dataclasses
from typing import Any

import keras
from keras import ops

from tf_transformer.config import TransformerConfig
from tf_transformer.decoder import Decoder
from tf_transformer.dropout import Dropout
from tf_transformer.embedding import TokenEmbedding
from tf_transformer.positions import PositionalEncoding
from tf_transformer.projection import Projection


class DecoderModel(keras.Model):
    """A model that computes the logits of the next token, all positions at once or step by step.

    All weights exist from construction on, so a model can be compiled, fitted and restored at once,
    also under a `tf.distribute` strategy whose scope it was made in.

    Args:
        config: sizes and switches.

    Raises:
        ValueError: `config` is something else.
    """

    def __init__(self, config: TransformerConfig, **kwargs: Any):
        if not isinstance(config, TransformerConfig):
            raise ValueError(f"`config` must be a TransformerConfig. Received: {config!r}")
        super().__init__(**kwargs)
        self.config = config
        self.decoder = self._stack(
            Decoder,
            "decoder",
            num_layers=config.num_decoder_layers,
            cross_attention=not config.decoder_only,
            cross_num_heads=config.side("decoder").cross_num_heads,
        )
        self.target_embedding = self._embedding("decoder", config.target_vocab_size, "target")
        self.target_positions = self._positions("decoder", "target")
        self.embedding_dropout = Dropout(
            config.dropout_rate, dtype=self.dtype_policy, name="embedding_dropout"
        )
        self.logits_projection = None
        if not config.logits_tied:
            self.logits_projection = Projection(
                config.target_vocab_size,
                use_bias=config.logits_bias,
                dtype="float32",
                name="logits_projection",
            )

    def _stack(self, stack_class, side: str, **arguments):
        config = self.config
        own = config.side(side)
        return stack_class(
            num_heads=own.num_heads,
            d_ff=own.d_ff,
            activation=config.activation,
            dropout_rate=config.dropout_rate,
            attention_dropout_rate=config.attention_dropout_rate,
            feed_forward_dropout_rate=config.feed_forward_dropout_rate,
            norm_position=own.norm_position,
            final_norm=own.final_norm,
            norm_type=own.norm_type,
            layer_norm_epsilon=config.layer_norm_epsilon,
            relative_positions=config.relative_positions,
            max_relative_distance=config.max_relative_distance,
            layer_history=own.layer_history,
            depth_scaled_initialization=config.depth_scaled_initialization,
            dtype=self.dtype_policy,
            name=side,
            **arguments,
        )

    def _embedding(self, side: str, vocab_size: int, name: str) -> TokenEmbedding:
        return TokenEmbedding(
            vocab_size=vocab_size,
            d_model=self.config.side(side).d_model,
            trainable=self.config.trainable_embeddings,
            dtype=self.dtype_policy,
            name=f"{name}_embedding",
        )

    def _positions(self, side: str, name: str) -> PositionalEncoding | None:
        if self.config.positions == "none":
            return None
        return PositionalEncoding(
            kind=self.config.positions,
            d_model=self.config.side(side).d_model,
            max_length=self.config.max_length,
            dtype=self.dtype_policy,
            name=f"{name}_positions",
        )

    def build(self, input_shape=None):
        hidden_shape = (None, None, self.config.side("decoder").d_model)
        memory_shape = (None, None, self.config.side("encoder").d_model)
        if not self.target_embedding.built:  # the source's too, when shared
            self.target_embedding.build()
        if self.target_positions is not None:
            self.target_positions.build()
        self.decoder.build(hidden_shape, memory_shape)
        if self.logits_projection is not None:
            self.logits_projection.build(hidden_shape)
        elif self.config.logits_bias:
            self.logits_bias = self.add_weight(
                name="logits_bias",
                shape=(self.config.target_vocab_size,),
                initializer="zeros",
                dtype="float32",
                autocast=False,
            )
        self.built = True

    def _embed(self, ids, embedding, positional_encoding, training, packing=None):
        """Ids `(batch, length)` to vectors `(batch, length, d_model)`, or packed ones."""
        hidden = embedding(ids)
        if positional_encoding is not None:
            hidden = hidden + positional_encoding(ops.arange(ops.shape(ids)[1]))
        if packing is not None:
            hidden = packing.pack(hidden)
        return self.embedding_dropout(ops.cast(hidden, self.compute_dtype), training=training)

    def step(self, newest, position, context, caches, projected_memory=(), memory_bias=None):
        """Reads one token of every hypothesis; `StepDecoder` keeps the account.

        Args:
            newest: `(rows * beam,)`, the begin id first.
            position: `(1,)`, of these tokens.
            context, caches: see `Decoder.step`.
            projected_memory, memory_bias: see `Decoder.step`.

        Returns:
            logits of the next token, `(rows * beam, target_vocab_size)` float32, the layers' new
            caches, and the last layer's weights of cross-attention, or None.
        """
        hidden = self.target_embedding(newest)
        if self.target_positions is not None:
            hidden = hidden + self.target_positions(position)
        hidden, caches, weights = self.decoder.step(
            ops.cast(hidden, self.compute_dtype), context, caches, projected_memory, memory_bias
        )
        return self._logits(hidden), caches, weights

    def _logits(self, hidden):
        if self.logits_projection is not None:
            return self.logits_projection(hidden)
        logits = self.target_embedding.logits(hidden)
        return logits + self.logits_bias if self.config.logits_bias else logits

    def logits_weights(self):
        """The table `(vocab, d_model)` and bias `(vocab,)` or None of `hidden table^T + bias`."""
        if self.logits_projection is not None:
            return ops.transpose(self.logits_projection.kernel), self.logits_projection.bias
        bias = self.logits_bias if self.config.logits_bias else None
        return self.target_embedding.embeddings, bias

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

    def train_step(self, *arguments):
        """Keras' own, also on several workers."""
        return self._averageable(super().train_step(*arguments))

    def test_step(self, *arguments):
        """Keras' own, also on several workers."""
        return self._averageable(super().test_step(*arguments))

    def _averageable(self, logs):
        """Logs in the one shape that Keras can average over several workers, `(1,)`."""
        strategy = getattr(self, "_distribute_strategy", None)
        if strategy is None or strategy.cluster_resolver is None:
            return logs
        return {name: ops.reshape(value, (1,)) for name, value in logs.items()}

    def get_config(self):
        return super().get_config() | {"config": dataclasses.asdict(self.config)}

    @classmethod
    def from_config(cls, config, custom_objects=None):
        config = dict(config)
        return cls(TransformerConfig(**config.pop("config")), **config)
