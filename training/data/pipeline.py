"""The `tf.data` pipeline from parallel text to batches."""

import dataclasses

import tensorflow as tf
import tqdm

from tf_transformer.text.framing import append_end, shift_right
from tf_transformer.text.text_file import TextFile
from tf_transformer.text.tokenizer import Tokenizer
from training.config import DataConfig
from training.data.alignments import read_links
from training.data.bucketing import bucket_batch_sizes, bucket_boundaries
from training.data.change_detection import ChangeDetector
from training.data.noisy_tokens import tokenize_with_noise
from training.noise.draws import pair_keys

# Number of pairs per call of the tokenizer.
_CHUNK = 256


@dataclasses.dataclass(frozen=True)
class CorpusStatistics:
    """Counts of what the length filter keeps and drops.

    Args:
        pairs: number of sentence pairs read.
        empty: number of pairs dropped because a side has no token.
        too_long: number of pairs dropped because a side has more than `max_length` tokens.
        source_tokens: source tokens of the kept pairs, including end tokens.
        target_tokens: target tokens of the kept pairs, including end tokens.
        aligned: number of kept pairs with links that can be used.
    """

    pairs: int
    empty: int
    too_long: int
    source_tokens: int
    target_tokens: int
    aligned: int = 0

    @property
    def kept(self) -> int:
        """Number of pairs that are kept."""
        return self.pairs - self.empty - self.too_long


@dataclasses.dataclass(frozen=True)
class ParallelText:
    """A parallel corpus that is tokenized and batched.

    Every batch is `({"source": (batch, source_length), "target": (batch, target_length)},
    labels (batch, target_length))`, int32, padded with 0. Source and labels end with the end id;
    the target is the labels shifted right, beginning with the begin id. A batch for a language
    model has no `"source"`. With alignments, there also are `"links"`, see `read_links`.

    Args:
        source: the source text; None for a language model.
        target: the target text.
        source_tokenizer: tokenizer of the source; None for a language model.
        target_tokenizer: tokenizer of the target.
        config: settings of the batches.
        change_detector: detector of the same texts. With it, an epoch with another number of pairs
            is an error, as when a text is truncated during training.
        alignments: word alignments that `check_alignments` has checked; None without.
    """

    source: TextFile | None
    target: TextFile
    source_tokenizer: Tokenizer | None
    target_tokenizer: Tokenizer
    config: DataConfig
    change_detector: ChangeDetector | None = None
    alignments: TextFile | None = None

    def training_batches(self, seed: int, first_step: int = 0) -> tf.data.Dataset:
        """Returns an endless stream of batches, which is a pure function of the seed.

        Each epoch is shuffled with a seed derived from `seed` and the epoch's index. Noise is
        derived from `seed`, the epoch's index and the line's. A run resumed at `first_step` gets
        the same batches as an uninterrupted one.

        Args:
            seed: seed of the order.
            first_step: number of batches to skip.
        """
        has_noise = self.config.noise.is_on
        lines = self._numbered_lines() if has_noise else self._lines()

        def epoch(index):
            # Sets the seed of this function's graph; else the global seed would affect the shuffle.
            tf.random.set_seed(1)
            shuffled = lines.shuffle(
                self.config.shuffle_buffer,
                seed=tf.random.stateless_uniform(
                    (),
                    seed=tf.stack([tf.constant(seed, tf.int64), index]),
                    maxval=2**31 - 1,
                    dtype=tf.int64,
                ),
                reshuffle_each_iteration=False,
            )
            if not has_noise:
                return shuffled
            return shuffled.map(
                lambda source, target, line: (source, target, pair_keys(seed, index, line))
            )

        epochs = tf.data.Dataset.range(2**31).flat_map(epoch)
        return self._batches(epochs).skip(first_step).prefetch(tf.data.AUTOTUNE)

    def batches(self) -> tf.data.Dataset:
        """Returns batches of one pass over the corpus, bucketed by length."""
        lines = self._lines()
        return self._batches(lines).prefetch(tf.data.AUTOTUNE)

    def statistics(self, label: str) -> CorpusStatistics:
        """Counts in one pass what the filter keeps and drops; `label` names the progress bar."""
        lines = self._lines()
        pairs = empty = too_long = source_tokens = target_tokens = aligned = 0
        with tqdm.tqdm(
            total=self.change_detector and self.change_detector.num_pairs,
            desc=label,
            unit=" pairs",
            leave=False,
            disable=None,
        ) as progress:
            for source, target, *links in self._tokenized_chunks(lines):
                source = source.row_lengths() + 1
                target = target.row_lengths() + 1
                is_empty = tf.minimum(source, target) < 2
                is_long = ~is_empty & (tf.maximum(source, target) > self.config.max_length)
                keep = tf.cast(~(is_empty | is_long), tf.int64)
                empty += int(tf.math.count_nonzero(is_empty))
                too_long += int(tf.math.count_nonzero(is_long))
                source_tokens += int(tf.reduce_sum(source * keep)) if self.source else 0
                target_tokens += int(tf.reduce_sum(target * keep))
                if links:
                    aligned += int(tf.math.count_nonzero(links[0].row_lengths() * keep))
                pairs += int(tf.size(keep))
                progress.update(int(tf.size(keep)))
        return CorpusStatistics(pairs, empty, too_long, source_tokens, target_tokens, aligned)

    def _lines(self) -> tf.data.Dataset:
        """Returns pairs of lines, with their alignments if there are any.

        Without a source, the target takes its place in the pipeline.
        """
        target = self.target.dataset()
        sides = [self.source.dataset() if self.source else target, target]
        if self.alignments:
            sides.append(self.alignments.dataset())
        pairs = tf.data.Dataset.zip(*sides)
        if self.change_detector is None:
            return pairs
        num_pairs = self.change_detector.num_pairs
        return pairs.apply(tf.data.experimental.assert_cardinality(num_pairs))

    def _numbered_lines(self) -> tf.data.Dataset:
        """Returns pairs of lines, with the number of each."""
        return self._lines().enumerate().map(lambda line, pair: (*pair, line))

    def _tokenized_chunks(self, lines: tf.data.Dataset) -> tf.data.Dataset:
        """Tokenizes pairs of lines, whose third element is an alignment or the key of noise."""

        def tokenize(source, target, third=None):
            if self.source_tokenizer is None or self.source is None:
                target = self.target_tokenizer.tokenize(target)
                return target, target
            tokenizers = (self.source_tokenizer, self.target_tokenizer)
            if third is not None and self.alignments is None:
                return tokenize_with_noise(source, target, third, tokenizers, self.config)
            source_ids, target_ids = map(Tokenizer.tokenize, tokenizers, (source, target))
            if third is None:
                return source_ids, target_ids
            sides = (
                (source, source_ids, self.source_tokenizer),
                (target, target_ids, self.target_tokenizer),
            )
            return source_ids, target_ids, read_links(third, sides)

        return lines.batch(_CHUNK).map(tokenize, num_parallel_calls=tf.data.AUTOTUNE)

    def _batches(self, lines: tf.data.Dataset) -> tf.data.Dataset:
        max_length = self.config.max_length
        boundaries = bucket_boundaries(max_length)
        batch_sizes = bucket_batch_sizes(
            boundaries, self.config.batch_tokens, self.config.batch_sentences
        )

        def end_sentences(source, target, *links):
            ends = append_end(tf.identity(source)), append_end(tf.identity(target))
            return *ends, *map(tf.identity, links)

        def shift(source, labels, *links):
            inputs = {"source": source} if self.source else {}
            inputs |= {"links": links[0]} if links else {}
            return inputs | {"target": shift_right(labels)}, labels

        pairs = self._tokenized_chunks(lines).unbatch().map(end_sentences)
        batches = pairs.filter(
            lambda source, labels, *_: (
                (_length(source, labels) <= max_length)
                & (tf.minimum(tf.size(source), tf.size(labels)) > 1)
            )
        ).bucket_by_sequence_length(
            _length,
            bucket_boundaries=boundaries,
            bucket_batch_sizes=batch_sizes,
        )
        return batches.map(shift)


def _length(source, labels, *_):
    return tf.maximum(tf.size(source), tf.size(labels))
