"""From parallel text to batches, as a stream: `tf.data` all the way."""

import dataclasses

import tensorflow as tf
import tqdm

from tf_transformer.text.framing import append_end, shift_right
from tf_transformer.text.text_file import TextFile
from tf_transformer.text.tokenizer import Tokenizer
from training.config import DataConfig
from training.data.bucketing import bucket_batch_sizes, bucket_boundaries
from training.data.change_detection import TextWatch

# Pairs that are tokenized by one call.
_CHUNK = 256


@dataclasses.dataclass(frozen=True)
class CorpusStatistics:
    """What the length filter keeps and drops.

    Args:
        pairs: sentence pairs read.
        empty: pairs dropped because a side has no token.
        too_long: pairs dropped because a side has more than `max_length` tokens.
        source_tokens, target_tokens: in the pairs that are kept, end tokens included.
    """

    pairs: int
    empty: int
    too_long: int
    source_tokens: int
    target_tokens: int

    @property
    def kept(self) -> int:
        """Pairs that training sees."""
        return self.pairs - self.empty - self.too_long


@dataclasses.dataclass(frozen=True)
class ParallelText:
    """A parallel corpus, the tokenizers of its sides, and how it becomes batches.

    Args:
        source, target: the texts.
        source_tokenizer, target_tokenizer: of these.
        config: of the batches.
        watch: of the texts, where they must stay what they were; reading another number of pairs,
            as where a text was cut off meanwhile, is then an error.

    For a language model there is no source: `source` and `source_tokenizer` are None, and so are
    the batches' sources and the counts of source tokens.

    Every batch is `({"source": (batch, source_length), "target": (batch, target_length)},
    labels (batch, target_length))`, int32, padded with 0. The source ends in the end id; the
    target is the labels shifted right behind the begin id, the labels end in the end id.
    """

    source: TextFile | None
    target: TextFile
    source_tokenizer: Tokenizer | None
    target_tokenizer: Tokenizer
    config: DataConfig
    watch: TextWatch | None = None

    def training_batches(self, seed: int, first_step: int = 0) -> tf.data.Dataset:
        """An endless stream of batches, a pure function of the seed.

        Every epoch is shuffled anew with a seed made from the epoch's number. A run that goes on
        at `first_step` gets the batches that an uninterrupted one would.
        """
        lines = self._lines()

        def epoch(number):
            # Of this function's graph alone: the process's own seed would go into the shuffle too.
            tf.random.set_seed(1)
            return lines.shuffle(
                self.config.shuffle_buffer,
                seed=tf.random.stateless_uniform(
                    (),
                    seed=tf.stack([tf.constant(seed, tf.int64), number]),
                    maxval=2**31 - 1,
                    dtype=tf.int64,
                ),
                reshuffle_each_iteration=False,
            )

        epochs = tf.data.Dataset.range(2**31).flat_map(epoch)
        return self._batches(epochs).skip(first_step).prefetch(tf.data.AUTOTUNE)

    def batches(self) -> tf.data.Dataset:
        """Every pair once, in batches of like lengths."""
        lines = self._lines()
        return self._batches(lines).prefetch(tf.data.AUTOTUNE)

    def statistics(self, label: str) -> CorpusStatistics:
        """Counts in one pass what the filter keeps and drops, with a progress bar."""
        lines = self._lines()
        pairs = empty = too_long = source_tokens = target_tokens = 0
        with tqdm.tqdm(
            total=self.watch and self.watch.num_pairs,
            desc=label,
            unit=" pairs",
            leave=False,
            disable=None,
        ) as progress:
            for source, target in self._tokenized_chunks(lines):
                source = source.row_lengths() + 1
                target = target.row_lengths() + 1
                is_empty = tf.minimum(source, target) < 2
                is_long = ~is_empty & (tf.maximum(source, target) > self.config.max_length)
                keep = tf.cast(~(is_empty | is_long), tf.int64)
                empty += int(tf.math.count_nonzero(is_empty))
                too_long += int(tf.math.count_nonzero(is_long))
                source_tokens += int(tf.reduce_sum(source * keep)) if self.source else 0
                target_tokens += int(tf.reduce_sum(target * keep))
                pairs += int(tf.size(keep))
                progress.update(int(tf.size(keep)))
        return CorpusStatistics(pairs, empty, too_long, source_tokens, target_tokens)

    def _lines(self) -> tf.data.Dataset:
        """Pairs of lines; without a source, the target stands in for it until `_batches` ends."""
        target = self.target.dataset()
        pairs = tf.data.Dataset.zip(self.source.dataset() if self.source else target, target)
        if self.watch is None:
            return pairs
        return pairs.apply(tf.data.experimental.assert_cardinality(self.watch.num_pairs))

    def _tokenized_chunks(self, lines: tf.data.Dataset) -> tf.data.Dataset:
        def tokenize(source, target):
            target = self.target_tokenizer.tokenize(target)
            if self.source_tokenizer is None or self.source is None:
                return target, target
            return self.source_tokenizer.tokenize(source), target

        return lines.batch(_CHUNK).map(tokenize, num_parallel_calls=tf.data.AUTOTUNE)

    def _batches(self, lines: tf.data.Dataset) -> tf.data.Dataset:
        max_length = self.config.max_length
        boundaries = bucket_boundaries(max_length)
        batch_sizes = bucket_batch_sizes(boundaries, self.config.batch_tokens)
        if self.config.batch_sentences is not None:
            batch_sizes = [self.config.batch_sentences] * len(batch_sizes)

        def end_sentences(source, target):
            return append_end(tf.identity(source)), append_end(tf.identity(target))

        def shift(source, labels):
            inputs = {"source": source} if self.source else {}
            return inputs | {"target": shift_right(labels)}, labels

        pairs = self._tokenized_chunks(lines).unbatch().map(end_sentences)
        batches = pairs.filter(
            lambda source, labels: (
                (_length(source, labels) <= max_length)
                & (tf.minimum(tf.size(source), tf.size(labels)) > 1)
            )
        ).bucket_by_sequence_length(
            _length,
            bucket_boundaries=boundaries,
            bucket_batch_sizes=batch_sizes,
        )
        return batches.map(shift)


def _length(source, labels):
    return tf.maximum(tf.size(source), tf.size(labels))
