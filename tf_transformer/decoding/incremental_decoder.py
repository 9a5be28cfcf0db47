"""Incremental decoding: one token per hypothesis and step, with a cache of earlier tokens."""

import contextlib
from typing import Any, NamedTuple

import keras
import tensorflow as tf

from tf_transformer.backend import require_tensorflow
from tf_transformer.decoding.kv_cache import KVCache
from tf_transformer.decoding.logits_processing import IMPOSSIBLE
from tf_transformer.decoding.prefix_cache import PrefixCache
from tf_transformer.decoding.recurrent_cache import RecurrentCache
from tf_transformer.layers.masks import padding_attention_mask
from tf_transformer.models.base import DecoderModel
from tf_transformer.models.row_adapters import row_choice, rows_adapted
from tf_transformer.shortlists.candidates import Candidates, candidate_weights

require_tensorflow("Incremental decoding")


class DecodingState(NamedTuple):
    """The state of `IncrementalDecoder` between steps.

    Attributes:
        cache: keys and values of the tokens so far, or the states of recurrent layers.
        projected_memory: list of one dictionary per layer, keys and values of the memory,
            `(rows, cross_num_heads, source_length, head_dim)`; `()` in a language model.
        memory_mask: `(rows, 1, 1, source_length)` bool, True at real tokens; `()` in a language
            model.
        allowed: `(rows, candidates)` bool, True at the candidates of each row; `()` without
            candidates.
        adapters: `(rows,)` int32, the adapter of each row, see `models/row_adapters.py`; `()`
            without.
    """

    cache: KVCache | PrefixCache | RecurrentCache
    projected_memory: Any
    memory_mask: Any
    allowed: Any = ()
    adapters: Any = ()


class IncrementalDecoder:
    """Decodes with a model step by step, as a `StepModel` of `beam_search`.

    The steps compute the same logits as the model's `call`. The constructor reads the weights, so
    that the loop of a search does not: construct the decoder in the same graph, before the loop.

    Args:
        model: a `Transformer` or `LanguageModel`.
        beam_size: number of hypotheses per sentence.
        candidates: the target ids to consider; the tokens of all hypotheses, and the columns of the
            logits, are then indices of candidates. None considers all ids.

    Attributes:
        compaction_interval: number of steps that a new or compacted cache has space for.
        cache_type: class of the cache of keys and values.
    """

    compaction_interval = 8
    cache_type: type[KVCache | PrefixCache]

    def __init__(
        self, model: DecoderModel, beam_size: int = 1, candidates: Candidates | None = None
    ):
        self.model = model
        self.beam_size = beam_size
        self.cache_type = PrefixCache if beam_size == 1 else KVCache
        self.candidates = candidates
        if candidates is not None:
            self._logits_weights = candidate_weights(model, candidates.ids)
        weights = [*model.decoder.weights, *model.target_embedding.weights]
        for layer in (model.target_positions, model.logits_projection):
            weights += layer.weights if layer is not None else []
        if hasattr(model, "logits_bias"):
            weights.append(model.logits_bias)
        weights += self._further_weights()
        self._values = [(weight, tf.convert_to_tensor(weight)) for weight in weights]

    def _further_weights(self) -> list:
        """Returns the weights that a subclass reads."""
        return []

    def start(
        self,
        rows: tf.Tensor | int,
        memory: tf.Tensor | None = None,
        memory_padding_mask: tf.Tensor | None = None,
    ) -> DecodingState:
        """Returns the state before the first token.

        Args:
            rows: number of sentences.
            memory: `(rows, source_length, d_model)`, the result of `Transformer.encode`; None in a
                language model.
            memory_padding_mask: `(rows, source_length)` bool, True at real tokens; None in a
                language model.
        """
        cache = self._empty_cache(rows)
        if memory is None:
            return DecodingState(cache, (), ())
        projected = self.model.decoder.project_memory(memory)
        mask = padding_attention_mask(memory_padding_mask)
        allowed = () if self.candidates is None else self.candidates.allowed
        choice = row_choice(self.model)
        adapters = () if choice is None or choice.indices is None else choice.indices
        return DecodingState(cache, projected, mask, allowed, adapters)

    def _empty_cache(self, rows):
        config, layers = self.model.config, self.model.decoder.stacked_layers
        if config.decoder_autoregression == "ssru":
            d_model = config.side("decoder").d_model
            return RecurrentCache.empty(len(layers), rows, self.beam_size, d_model)
        return self.cache_type.empty(
            [(layer.self_attention.num_heads, layer.self_attention.head_dim) for layer in layers],
            rows,
            self.beam_size,
            self.compaction_interval,
            self.model.compute_dtype,
        )

    def decode_step(
        self,
        newest: tf.Tensor,
        parents: tf.Tensor,
        position: tf.Tensor | int,
        state: DecodingState,
        return_attention: bool = False,
    ) -> tuple[tf.Tensor, tf.Tensor | None, DecodingState]:
        """Computes the next token's logits of every hypothesis, see `StepModel.decode_step`.

        The attention is the mean over the heads of the last layer's cross-attention.
        """
        begun = state.cache.begin_step(parents, position)
        with self._weights_read(state):
            hidden, weights, state = self._advance(newest, tf.reshape(position, (1,)), begun, state)
            logits = self._logits(hidden, state.allowed, self.beam_size)
        attention = None
        if return_attention:
            attention = tf.reduce_mean(tf.cast(weights, tf.float32), axis=1)
        return logits, attention, state

    @contextlib.contextmanager
    def _weights_read(self, state):
        """Lets the model use the weights that the constructor has read, with the rows' adapters."""
        with (
            keras.StatelessScope(state_mapping=self._values),
            rows_adapted(self.model, state.adapters),
        ):
            yield

    def _advance(self, newest, positions, begun, state):
        """Computes the decoder's output for new tokens.

        Args:
            newest: `(rows, beam)` int32, the tokens.
            positions: `(1,)` or `(rows * beam,)` int32, their positions.
            begun: the cache, and the step that it has begun.
            state: the `DecodingState` before the step.

        Returns:
            The output, `(rows * beam, d_model)`, the last layer's cross-attention weights or None,
            and the new state.
        """
        cache, step = begun
        hidden, caches, weights = self.model.hidden_step(
            self._target_ids(newest),
            positions,
            cache.layers,
            step,
            state.projected_memory,
            state.memory_mask,
        )
        return hidden, weights, state._replace(cache=cache._replace(layers=caches))

    def _target_ids(self, tokens):
        """Returns the target ids of tokens, which may be indices of candidates, without axes."""
        tokens = tf.reshape(tokens, (-1,))
        return tokens if self.candidates is None else tf.gather(self.candidates.ids, tokens)

    def _logits(self, hidden, allowed, width):
        """Computes logits, `(rows, width, vocab or candidates)`, of `(rows * width, d_model)`."""
        if self.candidates is None:
            logits = self.model.logits(hidden)
            return tf.reshape(logits, (-1, width, logits.shape[-1]))
        matrix, bias = self._logits_weights
        logits = tf.matmul(tf.cast(hidden, tf.float32), matrix)
        if bias is not None:
            logits = logits + bias
        shape = (-1, width, matrix.shape[1] or tf.shape(matrix)[1])
        return tf.where(allowed[:, tf.newaxis], tf.reshape(logits, shape), IMPOSSIBLE)

    def select_rows(
        self,
        rows: tf.Tensor,
        alive: tf.Tensor,
        parents: tf.Tensor,
        position: tf.Tensor | int,
        state: DecodingState,
    ) -> DecodingState:
        """Returns the state of some rows, see `StepModel.select_rows`."""
        cache = state.cache.select_rows(rows, alive, parents, position, self.compaction_interval)
        return DecodingState(
            cache,
            *tf.nest.map_structure(lambda part: tf.gather(part, rows), tuple(state)[1:]),
        )
