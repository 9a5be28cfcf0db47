"""The base class of all models: a target embedding, a decoder and logits."""

import dataclasses
from collections.abc import Mapping
from typing import Any

import keras
from keras import ops

from tf_transformer.config import TransformerConfig
from tf_transformer.errors import InputError
from tf_transformer.layer_settings import StackSettings
from tf_transformer.layers.decoder import Decoder
from tf_transformer.layers.dense import Projection
from tf_transformer.layers.dropout import Dropout
from tf_transformer.layers.embedding import TokenEmbedding
from tf_transformer.layers.kernels import look_up
from tf_transformer.layers.layout import PADDED, SentenceLayout
from tf_transformer.layers.masks import padding_mask
from tf_transformer.layers.normalization import make_norm
from tf_transformer.layers.positions import PositionalEncoding
from tf_transformer.models.draft_heads import DraftHeads
from tf_transformer.models.keras_model import KerasModel
from tf_transformer.models.states import ModelStates
from tf_transformer.text.special_ids import BEGIN_ID, END_ID


class DecoderModel(KerasModel):
    """Base class of models that compute the logits of the next token.

    `call` computes all positions at once, `step` one position. The constructor creates all weights,
    so a new model can be compiled, trained and restored immediately. To use a `tf.distribute`
    strategy, construct the model in the strategy's scope.

    Args:
        config: the model's settings.
        **kwargs: those of `keras.Model`.

    Raises:
        InputError: as `KerasModel`.
    """

    layer_order = (
        *("source_embedding", "source_positions", "source_embedding_norm", "embedding_dropout"),
        *("encoder", "target_embedding", "target_positions", "target_embedding_norm", "decoder"),
        *("logits_projection", "draft_heads"),
    )

    def __init__(self, config: TransformerConfig, **kwargs: Any):
        super().__init__(config, **kwargs)
        self.decoder = self._stack(
            Decoder,
            "decoder",
            cross_attention=not config.decoder_only,
            autoregression=config.decoder_autoregression,
        )
        self.target_embedding = self._embedding("decoder", config.target_vocab_size, "target")
        self.target_positions = self._positions("decoder", "target")
        self.target_embedding_norm = self._embedding_norm("decoder", "target")
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
        self.draft_heads: Any = None
        if config.draft_heads:
            self.draft_heads = DraftHeads(
                num_drafts=config.draft_heads,
                num_heads=config.side("decoder").cross_num_heads,
                dtype=self.dtype_policy,
                name="draft_heads",
            )

    def _stack(self, stack_class, side: str, **settings):
        """Returns the encoder or the decoder, with the settings of this side or of the model.

        Args:
            stack_class: its class.
            side: "encoder" or "decoder".
            **settings: the settings that the model has under other names.
        """
        settings |= {
            "num_layers": getattr(self.config, f"num_{side}_layers"),
            "attention_dropout_rate": self.config.dropout_rate_of("attention"),
            "feed_forward_dropout_rate": self.config.dropout_rate_of("feed_forward"),
        }
        sources = (self.config.side(side), self.config)
        for settings_class in (StackSettings, stack_class.layer_class.settings_class):
            for name in (field.name for field in dataclasses.fields(settings_class)):
                owner = next((source for source in sources if hasattr(source, name)), None)
                if owner is not None:
                    settings.setdefault(name, getattr(owner, name))
        return stack_class(**settings, dtype=self.dtype_policy, name=side)

    def _embedding(self, side: str, vocab_size: int, name: str) -> TokenEmbedding:
        return TokenEmbedding(
            vocab_size=vocab_size,
            d_model=self.config.side(side).d_model,
            scaled=self.config.scaled_embeddings,
            trainable=self.config.trainable_embeddings,
            dtype=self.dtype_policy,
            name=f"{name}_embedding",
        )

    def _embedding_norm(self, side: str, name: str) -> keras.layers.Layer | None:
        if not self.config.embedding_norm:
            return None
        settings = self.config.side(side).norm_type, self.config.layer_norm_epsilon
        return make_norm(*settings, self.dtype_policy, f"{name}_embedding_norm")

    def _positions(self, side: str, name: str) -> PositionalEncoding | None:
        if self.config.positions == "none":
            return None
        return PositionalEncoding(
            kind=self.config.positions,
            d_model=self.config.side(side).d_model,
            max_length=self.config.num_positions,
            first_position=self.config.first_position,
            dtype=self.dtype_policy,
            name=f"{name}_positions",
        )

    def _build_layers(self):
        hidden_shape = (None, None, self.config.side("decoder").d_model)
        memory_shape = (None, None, self.config.side("encoder").d_model)
        if not self.target_embedding.built:  # built already if it is the source embedding, too
            self.target_embedding.build((None, None))
        if self.target_positions is not None:
            self.target_positions.build((None,))
        if self.target_embedding_norm is not None:
            self.target_embedding_norm.build(hidden_shape)
        self.embedding_dropout.build(hidden_shape)
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
        if self.draft_heads is not None:
            self.draft_heads.build(hidden_shape)

    def _ids(self, inputs):
        """Returns the ids of each of `input_keys`, after a check of their shapes."""
        if not isinstance(inputs, Mapping) or not set(self.input_keys) <= set(inputs):
            keys = sorted(inputs) if isinstance(inputs, Mapping) else type(inputs).__name__
            raise InputError(
                f"`inputs` must be a dictionary with the keys {list(self.input_keys)}. "
                f"Received: {keys}"
            )
        shapes = {key: inputs[key].shape for key in self.input_keys}
        ranks = [shape.rank if hasattr(shape, "rank") else len(shape) for shape in shapes.values()]
        rows = {shape[0] for shape, rank in zip(shapes.values(), ranks, strict=True) if rank}
        if set(ranks) - {2, None} or len(rows - {None}) > 1:
            received = ", ".join(f"{key} of {tuple(shape)}" for key, shape in shapes.items())
            raise InputError(
                f"`inputs` must be ids of the shape (batch, length). Received: {received}"
            )
        return [inputs[key] for key in self.input_keys]

    def _embed(self, ids, find_vectors, side: str, training, layout: SentenceLayout = PADDED):
        """Embeds ids `(batch, length)` as `(batch, length, d_model)`, in the given layout.

        Args:
            ids: ids of the source or the target.
            find_vectors: function that returns their token vectors.
            side: "source" or "target".
            training: True applies dropout.
            layout: layout of the result.
        """
        hidden = find_vectors(ids)
        if getattr(self, f"{side}_positions") is not None:
            hidden = hidden + self._position_vectors(ids, side)
        hidden = ops.cast(layout.pack(hidden), self.compute_dtype)
        if (norm := getattr(self, f"{side}_embedding_norm")) is not None:
            hidden = norm(hidden)
        return self.embedding_dropout(hidden, training=training)

    def _position_vectors(self, ids, side: str):
        """Returns the vectors of the positions of ids `(batch, length)`.

        Attention knows the order by the positions alone, so that these move the tags.

        Returns:
            `(length, d_model)`, or `(batch, length, d_model)` if they depend on the row.
        """
        positional_encoding, tags = getattr(self, f"{side}_positions"), self.config.language_tags
        positions = ops.arange(ops.shape(ids)[1], dtype="int32")
        if side == "target":
            return positional_encoding(self._without_begin(positions))
        if tags == "both_in_source":
            positions = ops.where(positions < 2, 1 - positions, positions)
        vectors = positional_encoding(positions)
        if tags == "end_and_begin":
            # The first token is the tag, whose position is the last one, behind the end id.
            lengths = ops.sum(ops.cast(padding_mask(ids), "int32"), axis=1, keepdims=True)
            vectors = look_up(
                vectors, ops.where(positions == 0, ops.maximum(lengths, 1), positions) - 1
            )
        return vectors

    def _without_begin(self, positions):
        """Returns the positions of target tokens, counted without a hidden begin id."""
        return ops.maximum(positions - 1, 0) if self.config.hides_begin else positions

    def _embed_target(self, target, training, layout: SentenceLayout = PADDED):
        return self._embed(target, self._look_up_target, "target", training, layout)

    def _look_up_target(self, ids):
        """Returns the target's token vectors: ids `(...)` to `(..., d_model)` float32."""
        is_begin = ops.equal(ids, BEGIN_ID)
        if self.config.begin_embedding == "end":
            ids = ops.where(is_begin, END_ID, ids)
        vectors = self.target_embedding(ids)
        if self.config.begin_embedding == "zero":
            vectors = ops.where(is_begin[..., None], ops.zeros_like(vectors), vectors)
        return vectors

    def states(self, inputs, training=None) -> ModelStates:
        """Computes `call`, and returns hidden states and attention weights as well.

        Args:
            inputs: dictionary of ids, as for `call`.
            training: True applies dropout.
        """
        raise NotImplementedError

    def hidden_at(self, inputs, positions_mask, training=None):
        """Computes the decoder's output at some positions, without computing any padding.

        The logits of these positions are its product with `logits_weights`.

        Args:
            inputs: dictionary of ids, as for `call`.
            positions_mask: `(batch, target_length)` bool, True at the positions to return.
            training: True applies dropout.

        Returns:
            `(selected, d_model)`, the positions of all rows in sequence.

        Raises:
            InputError: `positions_mask` is not boolean or has another shape.
        """
        raise NotImplementedError

    def step(self, newest, position, caches, step, projected_memory=(), memory_mask=None):
        """Computes the next token's logits from one new token per hypothesis.

        The arguments are those of `hidden_step`.

        Returns:
            The logits of the next token, `(rows * beam, target_vocab_size)` float32, the layers'
            new caches, and the last layer's cross-attention weights or None.
        """
        hidden, caches, weights = self.hidden_step(
            newest, position, caches, step, projected_memory, memory_mask
        )
        return self.logits(hidden), caches, weights

    def hidden_step(self, newest, position, caches, step, projected_memory=(), memory_mask=None):
        """Computes the decoder's output for one new token per hypothesis.

        `IncrementalDecoder` keeps the state between steps.

        Args:
            newest: `(rows * beam,)` ids of the new tokens; the begin id at position 0.
            position: `(1,)`, the position of these tokens.
            caches: `KVCache.layers` or `RecurrentCache.layers`.
            step: the `CacheStep` or `RecurrentStep` of the decoding step.
            projected_memory: the result of `Decoder.project_memory`; empty in a language model.
            memory_mask: `(rows, 1, 1, source_length)` bool, True = may attend.

        Returns:
            The decoder's output, `(rows * beam, d_model)`, the layers' new caches, and the last
            layer's cross-attention weights or None.
        """
        hidden = self._look_up_target(newest)
        if self.target_positions is not None:
            hidden = hidden + self.target_positions(self._without_begin(position))
        if self.config.hides_begin:
            step = step.hide_begin(position)
        hidden = ops.cast(hidden, self.compute_dtype)
        if self.target_embedding_norm is not None:
            hidden = self.target_embedding_norm(hidden)
        return self.decoder.step(hidden, caches, step, projected_memory, memory_mask)

    def logits(self, hidden):
        """Computes the logits from the decoder's output.

        Args:
            hidden: `(..., d_model)`.

        Returns:
            `(..., target_vocab_size)` float32.
        """
        if self.logits_projection is not None:
            return self.logits_projection(hidden)
        logits = self.target_embedding.logits(hidden)
        return logits + self.logits_bias if self.config.logits_bias else logits

    def draft(self, hidden, next_ids, projected_memory, memory_mask, few_queries=False):
        """Computes what predicts the tokens after the next one, see `DraftHeads`.

        Args:
            hidden: the decoder's output, `(rows, length, d_model)`.
            next_ids: the ids of the next tokens, which it predicts, `(rows, length)`.
            projected_memory: the result of `Decoder.project_memory`.
            memory_mask: `(rows, 1, 1, source_length)` bool, True = may attend.
            few_queries: see `DraftHeads`.

        Returns:
            `(rows, length, draft_heads, d_model)`, of which `logits` computes the logits.
        """
        vectors, memory = self._look_up_target(next_ids), projected_memory[-1]
        return self.draft_heads(hidden, vectors, memory, memory_mask, few_queries=few_queries)

    def logits_weights(self):
        """Returns the weights of the logits, `hidden matrix^T + bias`.

        Returns:
            The matrix, `(target_vocab_size, d_model)`, and the bias, `(target_vocab_size,)` or
            None.
        """
        if self.logits_projection is not None:
            return ops.transpose(self.logits_projection.kernel), self.logits_projection.bias
        bias = self.logits_bias if self.config.logits_bias else None
        return self.target_embedding.embeddings, bias
