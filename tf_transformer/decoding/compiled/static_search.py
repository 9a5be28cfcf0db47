"""Beam search in arrays of fixed sizes, for XLA, which compiles no others.

The steps are those of `beam_search`. Instead of growing, the arrays have space for the longest
output from the start, and finished rows stay in the batch.
"""

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from tf_transformer.decoding.beam_search import Search
from tf_transformer.decoding.drafts.draft_decoder import DraftDecoder
from tf_transformer.decoding.drafts.draft_search import DraftSearch
from tf_transformer.decoding.greedy_search import GreedySearch, hypotheses
from tf_transformer.decoding.incremental_decoder import IncrementalDecoder
from tf_transformer.decoding.kv_cache import CacheStep, KVCache
from tf_transformer.decoding.prefix_cache import PrefixCache
from tf_transformer.decoding.search_interface import Hypotheses, SearchOptions, without_none
from tf_transformer.models.base import DecoderModel
from tf_transformer.private_interfaces import xla_dynamic_update_slice
from tf_transformer.shortlists.candidates import Candidates
from tf_transformer.text.special_ids import BEGIN_ID, SUPPRESSED_IDS


class StaticSearch(Search):
    """A `Search` with `StaticDecoder`s, whose number of steps is the space for ids.

    The number of rows must be known in the graph, and repeated n-grams and the coverage penalty
    must not be given.
    """

    def run(self, state: Any, begin_id: int, options: SearchOptions) -> Hypotheses:
        """Searches; the arguments are those of `beam_search`."""
        num_rows = options.max_length.shape[0]
        rows = self.initial_rows(options, num_rows, begin_id)
        ids = tf.zeros((num_rows, self.beam_size, self.model.compaction_interval), tf.int32)
        rows = rows._replace(ids=ids, finished=rows.finished._replace(ids=ids))
        _, rows, _ = tf.while_loop(
            lambda step, rows, state: tf.reduce_any(rows.is_open),
            lambda step, rows, state: (step + 1, *self.extend(step, rows, state)),
            (tf.constant(0), rows, state),
        )
        return rows.finished

    def with_column(self, live, newest, finished, step):
        """Writes the newest tokens, see `Search.with_column`."""
        column = xla_dynamic_update_slice(live, newest[:, :, tf.newaxis], (0, 0, step))
        return column, finished


class StaticGreedySearch(GreedySearch):
    """A `GreedySearch` with `StaticDecoder`s, as `StaticSearch` is a `Search` with them."""

    def run(self, state: Any, begin_id: int, options: SearchOptions) -> Hypotheses:
        """Searches; the arguments are those of `beam_search`."""
        options = without_none(options)
        rows = self.initial_rows(options, begin_id)
        ids = tf.zeros((options.max_length.shape[0], self.model.compaction_interval), tf.int32)
        rows = rows._replace(outputs=rows.outputs._replace(ids=ids))
        _, rows, _ = tf.while_loop(
            lambda step, rows, state: tf.reduce_any(rows.is_open),
            lambda step, rows, state: (step + 1, *self.extend(step, rows, state)),
            (tf.constant(0), rows, state),
        )
        return hypotheses(rows.outputs, options)

    def with_column(self, ids, newest, step):
        """Writes the newest tokens, see `GreedySearch.with_column`."""
        return xla_dynamic_update_slice(ids, newest[:, tf.newaxis], (0, step))


class StaticStep(CacheStep):
    """A `CacheStep` of a `StaticCache`; `indices` is `()` int32, the step's first entry."""

    def write(
        self, layer_cache: tuple[tf.Tensor, tf.Tensor], entries: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Writes the keys and values of the step's tokens, see `CacheStep.write`."""
        keys, values = layer_cache
        columns = tf.linalg.matrix_transpose(entries[0])
        keys = xla_dynamic_update_slice(keys, columns, (0, 0, 0, self.indices))
        values = xla_dynamic_update_slice(values, entries[1], (0, 0, self.indices, 0))
        return keys, values

    def read(self, layer_cache: tuple[tf.Tensor, tf.Tensor]) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns the keys and the values, see `CacheStep.read`."""
        keys, values = layer_cache
        return tf.linalg.matrix_transpose(keys), values


def _as_columns(layers):
    """Returns the keys of each layer as columns, by which XLA multiplies faster, and the values.

    They are two arrays, since XLA would copy the halves of one.
    """
    pairs = map(tf.unstack, layers)
    return [(tf.linalg.matrix_transpose(keys), values) for keys, values in pairs]


class StaticPrefixCache(PrefixCache):
    """A `PrefixCache` with space for all steps; a chain of tokens needs a single row.

    The keys of a layer are `(rows, num_heads, head_dim, entries)`, see `_as_columns`.
    """

    @classmethod
    def empty(cls, *args: Any, **kwargs: Any) -> "StaticPrefixCache":
        """Returns a cache without tokens, see `PrefixCache.empty`."""
        return cls(_as_columns(super().empty(*args, **kwargs).layers))

    def begin_step(
        self, parents: tf.Tensor, position: tf.Tensor | int
    ) -> tuple["StaticPrefixCache", StaticStep]:
        """Prepares a step, see `PrefixCache.begin_step`."""
        return self, self._step(tf.reshape(position, (1,)), 1)

    def begin_chain(
        self, positions: tf.Tensor, accepted: tf.Tensor, length: int
    ) -> tuple["StaticPrefixCache", StaticStep]:
        """Prepares a step of several tokens, see `PrefixCache.begin_chain`."""
        return self, self._step(positions, length)

    def _step(self, positions, length):
        entries = self.layers[0][1].shape[2]
        distances = tf.range(entries) - (positions + tf.range(length))[:, tf.newaxis]
        mask = (distances <= 0)[tf.newaxis, tf.newaxis]
        return StaticStep(length, mask, positions[0], distances[tf.newaxis], unit=length)


class StaticCache(KVCache):
    """A `KVCache` with space for all steps, which is never compacted.

    The keys of a layer are `(rows, num_heads, head_dim, entries)`, see `_as_columns`.
    """

    @classmethod
    def empty(cls, *args: Any, **kwargs: Any) -> "StaticCache":
        """Returns a cache without tokens, see `KVCache.empty`."""
        cache = super().empty(*args, **kwargs)
        return cls(_as_columns(cache.layers), *cache[1:])

    def begin_step(
        self, parents: tf.Tensor, position: tf.Tensor | int
    ) -> tuple["StaticCache", StaticStep]:
        """Prepares a step, see `KVCache.begin_step`."""
        beam_size = parents.shape[1]
        visible = self.visible_entries(parents)
        distances = self.positions - position
        step = StaticStep(
            beam_size, visible[:, tf.newaxis], self.next_entry, distances, unit=beam_size
        )
        return self._replace(visible=visible, next_entry=self.next_entry + beam_size), step


class StaticDecoder(IncrementalDecoder):
    """An `IncrementalDecoder` with space for a number of steps.

    Args:
        model: a `Transformer` or `LanguageModel`.
        beam_size: number of hypotheses per sentence.
        num_steps: the largest number of steps.
        candidates: the target ids to consider, or None for all.
    """

    def __init__(
        self,
        model: DecoderModel,
        beam_size: int,
        num_steps: int,
        candidates: Candidates | None = None,
    ):
        super().__init__(model, beam_size, candidates)
        self.compaction_interval = num_steps
        self.cache_type = StaticPrefixCache if beam_size == 1 else StaticCache


class StaticDraftDecoder(DraftDecoder):
    """A `DraftDecoder` of a single sentence with space for the largest output."""

    def __init__(
        self, model: DecoderModel, largest_output: int, candidates: Candidates | None = None
    ):
        super().__init__(model, largest_output, candidates)
        self.cache_type = StaticPrefixCache


def static_search(
    model: StaticDecoder | StaticDraftDecoder,
    state: Any,
    *,
    beam_size: int,
    end_ids: Sequence[int],
    options: SearchOptions,
    num_best: int | tf.Tensor = 1,
) -> Hypotheses:
    """Runs `beam_search` in arrays of fixed sizes, with the begin id and suppressed ids of all."""
    ends = tuple(end_ids)
    if isinstance(model, DraftDecoder):
        search: Any = DraftSearch(model, ends, SUPPRESSED_IDS)
    elif beam_size == 1:
        search = StaticGreedySearch(model, ends, SUPPRESSED_IDS)
    else:
        search = StaticSearch(model, beam_size, ends, num_best, SUPPRESSED_IDS)
    return search.run(state, BEGIN_ID, options)
