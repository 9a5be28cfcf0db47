"""Word alignment of given sentence pairs, from the model's attention."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from tf_transformer.errors import InputError
from tf_transformer.inference.finite_scores import check_scores
from tf_transformer.models.base import DecoderModel
from tf_transformer.models.ensemble import Ensemble
from tf_transformer.text.framing import end_and_pad, prepend_begin
from tf_transformer.text.special_ids import PAD_ID
from tf_transformer.text.tokenizer import Tokenizer
from tf_transformer.word_alignment.pharaoh import Links
from tf_transformer.word_alignment.piece_words import word_starts

# Limits of a batch: pieces of a side, padding included, and weights of a head.
_MAX_PIECES, _MAX_WEIGHTS = 2**13, 2**19


class _Pair(NamedTuple):
    """A pair that can be aligned; the source's ids are without the tags of the target."""

    row: int
    tags: list[int]
    source: list[int]
    target: list[int]
    source_starts: list[int]
    target_starts: list[int]
    tag_words: list[int]


class WordAligner:
    """Links each target word of given pairs to a source word.

    The target is forced. A target word is linked to the source word that its pieces attend to most,
    in `Transformer.alignment`. The weight of a source word is the sum over its pieces, since the
    weights of a piece are a distribution, and guided alignment trains this sum: the maximum would
    depend on the number of pieces. The pieces of a target word count equally. Language tags and the
    end of the source are linked with nothing.

    Args:
        model: the model, or an ensemble.
        source_tokenizer: tokenizer of the source.
        target_tokenizer: tokenizer of the target.

    Raises:
        InputError: the model is a language model.
    """

    def __init__(
        self,
        model: DecoderModel | Ensemble,
        source_tokenizer: Tokenizer | None,
        target_tokenizer: Tokenizer,
    ):
        if source_tokenizer is None:
            raise InputError("a language model has no source to align")
        self._source_tokenizer, self._target_tokenizer = source_tokenizer, target_tokenizer
        self._tag_ids = frozenset(source_tokenizer.tag_ids)
        self._num_tags = model.config.num_target_tags
        self._max_length = model.config.max_length
        ids = tf.TensorSpec([None, None], tf.int32)
        self._weights = tf.function(
            lambda source, target: tf.cast(
                model.alignment({"source": source, "target": target}), tf.float32
            ),
            input_signature=[ids, ids],
            autograph=False,
        )

    def align(self, sources: Sequence[str], targets: Sequence[str]) -> list[Links | None]:
        """Aligns sentence pairs.

        Args:
            sources: the sources, with the language tags that the model needs.
            targets: their translations.

        Returns:
            For each pair its links; None if a side is longer than the model's limit, or has more or
            fewer words than white space separates, see `piece_words`. A blank side gives no links.

        Raises:
            InputError: weights are not finite.
        """
        found: list[Links | None] = [None] * len(sources)
        pairs = []
        encoded = (
            self._source_tokenizer.encode(list(sources)),
            self._target_tokenizer.encode(list(targets)),
        )
        for index, (source, target) in enumerate(zip(*encoded, strict=True)):
            starts = (
                word_starts(source, self._source_tokenizer),
                word_starts(target, self._target_tokenizer),
            )
            words = (len(sources[index].split()), len(targets[index].split()))
            if (len(starts[0]), len(starts[1])) != words:
                continue
            if not all(words):
                found[index] = set()
            elif max(len(source) - self._num_tags, len(target)) < self._max_length:
                pairs.append(self._pair(index, source, target, *starts))
        for batch in _batches(pairs):
            for pair, weights in zip(batch, self._batch_weights(batch), strict=True):
                found[pair.row] = self._links(pair, weights)
        return found

    def _pair(self, index, source, target, source_starts, target_starts) -> _Pair:
        ends = [*source_starts[1:], len(source)]
        tag_words = [
            word
            for word, (start, end) in enumerate(zip(source_starts, ends, strict=True))
            if not self._tag_ids.isdisjoint(source[start:end])
        ]
        num = self._num_tags
        return _Pair(
            index, source[:num], source[num:], target, source_starts, target_starts, tag_words
        )

    def _batch_weights(self, batch: Sequence[_Pair]) -> np.ndarray:
        """Returns what each target piece and the end of the target attend to.

        Returns:
            `(batch, target_length, source_length)`.
        """
        source = tf.ragged.constant([pair.source for pair in batch], tf.int32, ragged_rank=1)
        target = tf.ragged.constant(
            [pair.tags + pair.target for pair in batch], tf.int32, ragged_rank=1
        )
        target = prepend_begin(target.to_tensor(PAD_ID))
        return self._weights(end_and_pad(source), target).numpy()[:, self._num_tags :]

    def _links(self, pair: _Pair, weights: np.ndarray) -> Links:
        weights = weights[: len(pair.target), : len(pair.source)]
        check_scores(weights.sum())
        weights = np.pad(weights, [(0, 0), (self._num_tags, 0)])  # as many as the source has pieces
        by_source_word = np.add.reduceat(weights, pair.source_starts, axis=1)
        by_words = np.add.reduceat(by_source_word, pair.target_starts, axis=0)
        by_words[:, pair.tag_words] = -1.0
        if len(pair.tag_words) == len(pair.source_starts):
            return set()
        return {(int(source), target) for target, source in enumerate(by_words.argmax(axis=1))}


def _batches(pairs: list[_Pair]) -> Iterator[list[_Pair]]:
    """Yields batches of pairs of similar lengths, which are not too large for the memory."""
    batch: list[_Pair] = []
    longest_source = longest_target = 0
    for pair in sorted(pairs, key=lambda pair: (len(pair.target), len(pair.source))):
        longest_source = max(longest_source, len(pair.source) + 1)
        longest_target = max(longest_target, len(pair.target) + 1)
        size = len(batch) + 1
        is_large = size * max(longest_source, longest_target) > _MAX_PIECES
        if batch and (is_large or size * longest_source * longest_target > _MAX_WEIGHTS):
            yield batch
            batch = []
            longest_source, longest_target = len(pair.source) + 1, len(pair.target) + 1
        batch.append(pair)
    if batch:
        yield batch
