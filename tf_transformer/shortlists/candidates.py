"""The candidates of a batch: the target ids that its search considers, as a smaller vocabulary.

A search with candidates runs in indices of the candidates instead of ids. The candidates of a batch
are the union of those of its rows, so that one product computes the logits of all rows; each row
has a mask of its own, so that its result does not depend on the other rows.
"""

from collections.abc import Sequence
from typing import NamedTuple

import keras
import numpy as np
import tensorflow as tf
from keras import ops

from tf_transformer.errors import InputError
from tf_transformer.models.base import DecoderModel
from tf_transformer.shortlists.table import ShortlistTable
from tf_transformer.text.special_ids import NUM_SPECIAL, PAD_ID

# The number of candidates is a multiple of this, so that kernels find whole registers.
_MULTIPLE = 64


class Candidates(NamedTuple):
    """The target ids that the search of a batch considers.

    The special ids come first, in their order, so that their indices are equal to their ids.

    Attributes:
        ids: `(candidates,)` int32, the id of every candidate, and 0 after the last one.
        allowed: `(rows, candidates)` bool, True at the candidates of each row.
    """

    ids: tf.Tensor
    allowed: tf.Tensor


class Shortlist(tf.Module):
    """Finds the candidates of sources, as part of a graph.

    The candidates of a row are the special ids, the other ids that end an output, the ids that are
    always candidates, those of its source pieces, and its prefix.

    Args:
        table: the table of candidates.
        source_vocab_size: number of source ids.
        target_vocab_size: number of target ids.
        end_ids: ids that end an output.
        least: smallest number of candidates of a batch; padding is added.

    Attributes:
        end_indices: the indices of `end_ids` among the candidates of any batch.

    Raises:
        InputError: the table does not fit the vocabularies.
    """

    def __init__(
        self,
        table: ShortlistTable,
        source_vocab_size: int,
        target_vocab_size: int,
        end_ids: Sequence[int],
        least: int,
    ):
        super().__init__(name="shortlist")
        largest = max(table.always.max(initial=0), table.by_source.max(initial=0))
        if len(table.by_source) != source_vocab_size or largest >= target_vocab_size:
            raise InputError(
                f"`shortlist` must be of a model with {source_vocab_size} source and "
                f"{target_vocab_size} target pieces. Received: one with {len(table.by_source)} "
                f"source pieces and target ids up to {largest}"
            )
        self.digest = table.digest
        self.target_vocab_size = target_vocab_size
        # Those of every row, which come first: the special ids keep their values, and the end ids
        # have indices that are known in the graph.
        fixed = list(dict.fromkeys([*range(NUM_SPECIAL), *end_ids]))
        self.end_indices = tuple(fixed.index(token) for token in end_ids)
        self._fixed = np.array(fixed, "int32")
        self._always = np.array(sorted({*fixed, *table.always.tolist()}), "int32")
        self._most = table.by_source.shape[1]
        self._least = least
        by_source = table.by_source.copy()
        by_source[PAD_ID] = PAD_ID  # how far a row is padded depends on the others
        self.by_source = tf.Variable(by_source, trainable=False, name="candidates")

    def largest_count(self, rows: int, length: int) -> int:
        """Returns the largest number of candidates of a batch without prefixes.

        Args:
            rows: number of sentences.
            length: number of tokens of the longest source.
        """
        count = len(self._always) + rows * length * self._most
        return self._rounded_up(min(count, self.target_vocab_size))

    def find(self, source: tf.Tensor, prefix: tf.Tensor | None = None) -> Candidates:
        """Returns the candidates of a batch.

        Args:
            source: `(rows, length)` int32 ids, padded with 0.
            prefix: `(rows, prefix_length)` int32 target ids that must be candidates, padded with 0,
                or None.
        """
        num_rows = tf.shape(source)[0]
        found = tf.reshape(tf.gather(self.by_source, source), [num_rows, -1])
        if prefix is not None:
            found = tf.concat([found, prefix], axis=1)
        rows = tf.broadcast_to(tf.range(num_rows)[:, tf.newaxis], tf.shape(found))
        indices = tf.stack([rows, found], axis=2)
        is_always = np.zeros(self.target_vocab_size, bool)
        is_always[self._always] = True
        allowed = tf.tile(is_always[np.newaxis], [num_rows, 1])
        allowed = tf.tensor_scatter_nd_update(allowed, indices, tf.ones_like(found, tf.bool))
        # Those that are not at the beginning, in order.
        is_fixed = np.zeros(self.target_vocab_size, bool)
        is_fixed[self._fixed] = True
        others = tf.cast(tf.where(tf.reduce_any(allowed, axis=0) & ~is_fixed)[:, 0], tf.int32)
        ids = tf.concat([self._fixed, others], axis=0)
        allowed = tf.gather(allowed, ids, axis=1)
        missing = self._rounded_up(tf.size(ids)) - tf.size(ids)
        ids = tf.pad(ids, [[0, missing]], constant_values=PAD_ID)
        return Candidates(ids, tf.pad(allowed, [[0, 0], [0, missing]], constant_values=False))

    def indices(self, candidates: Candidates, ids: tf.Tensor) -> tf.Tensor:
        """Converts ids of candidates, an int32 tensor of any shape, to their indices."""
        # `tf.scatter_nd` adds the values of equal ids, of which only padding has several.
        indices = tf.range(tf.size(candidates.ids))
        indices = tf.where(candidates.ids == PAD_ID, 0, indices)
        shape = [self.target_vocab_size]
        return tf.gather(tf.scatter_nd(candidates.ids[:, tf.newaxis], indices, shape), ids)

    def _rounded_up(self, count):
        count = -(-count // _MULTIPLE) * _MULTIPLE
        least = -(-self._least // _MULTIPLE) * _MULTIPLE
        return tf.maximum(count, least) if tf.is_tensor(count) else max(count, least)


def candidate_weights(model: DecoderModel, ids: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor | None]:
    """Returns the weights of some logits.

    Args:
        model: the model; its products may be tiled or quantized.
        ids: `(candidates,)` int32 target ids.

    Returns:
        The matrix, `(d_model, candidates)`, and the bias, `(candidates,)` or None, both float32.
    """
    projection, embedding = model.logits_projection, model.target_embedding
    if projection is None:
        bias = model.logits_bias if model.config.logits_bias else None
        if embedding.table is None:
            matrix = tf.transpose(tf.gather(_tensor(embedding.embeddings), ids))
        else:
            matrix = embedding.table.columns(ids)
    elif projection.product is None:
        matrix, bias = tf.gather(_tensor(projection.kernel), ids, axis=1), projection.bias
    else:
        matrix, bias = projection.product.columns(ids), projection.product.bias
    return matrix, None if bias is None else tf.gather(_tensor(bias), ids)


def _tensor(weight: keras.Variable):
    return ops.convert_to_tensor(weight)
