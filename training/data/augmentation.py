"""What training changes in its sentences so that the model cannot learn them by heart.

Both work on batches of token ids, wherever these come from. The choices are a pure function of the
seed and of the step, so a run that goes on meets the same ones. The sampling of SentencePiece
itself takes its randomness from the process: it cannot be repeated.
"""

import re
from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from tf_transformer.text.framing import end_and_pad, remove_end, shift_right
from tf_transformer.text.special_ids import UNKNOWN_ID
from tf_transformer.text.tokenizer import Tokenizer
from training.config import DataConfig

# Numbers of the random sequences of one batch.
_SOURCE_SPLITS, _TARGET_SPLITS, _WORDS = range(3)
_NEVER_SPLIT = re.compile(r"<.+>")  # special, byte and tag pieces


def piece_parts(tokenizer: Tokenizer) -> np.ndarray:
    """The two pieces of the vocabulary that each piece is put together from.

    Of all ways to cut a piece in two, the one whose parts have the highest sum of SentencePiece's
    scores: with BPE those that were merged first, with unigram the most probable.

    Returns:
        `(vocab_size, 2)` int32; -1 for pieces that have no such parts.
    """
    numbers = {
        piece: number
        for number, piece in enumerate(tokenizer.pieces)
        if not _NEVER_SPLIT.fullmatch(piece)
    }
    scores = tokenizer.scores
    parts = np.full((tokenizer.vocab_size, 2), -1, np.int32)
    for piece, number in numbers.items():
        cuts = [
            (numbers[piece[:place]], numbers[piece[place:]])
            for place in range(1, len(piece))
            if piece[:place] in numbers and piece[place:] in numbers
        ]
        if cuts:
            parts[number] = max(cuts, key=lambda cut: scores[cut[0]] + scores[cut[1]])
    return parts


def split_pieces(
    ids: tf.RaggedTensor, parts: np.ndarray, rate: float, max_length: int, seed: tf.Tensor
) -> tf.RaggedTensor:
    """Cuts pieces into their parts at random, and the parts again: subword regularization.

    BPE-dropout (Provilkov et al., 2020) leaves out merges with a probability while it puts a word
    together; this undoes them with that probability, from the whole word down. The text stays the
    same. What differs: cuts that no merge of the usual segmentation leads to do not occur.

    Args:
        ids: ragged `(batch, (length))` int32.
        parts: of `piece_parts`.
        rate: probability that a piece is cut.
        max_length: a sentence that would have more tokens stays as it is.
        seed: `(2,)` int64.
    """
    table = tf.constant(parts)

    def split(number, values, rows, fresh):
        """Cuts some of the pieces that are `fresh`: whole sentences at first, then new parts."""
        found = tf.gather(table, values)
        chance = tf.random.stateless_uniform(tf.shape(values), seed + tf.stack([0, number]))
        cut = fresh & (found[:, 0] >= 0) & (chance < rate)
        repeats = tf.where(cut, 2, 1)
        left = tf.where(cut, found[:, 0], values)
        right = tf.where(cut, found[:, 1], values)
        places = tf.cumsum(repeats, exclusive=True)
        values, rows, fresh = (tf.repeat(x, repeats) for x in (left, rows, cut))
        values = tf.tensor_scatter_nd_update(values, (places + repeats - 1)[:, tf.newaxis], right)
        return number + 1, values, rows, fresh

    _, values, rows, _ = tf.while_loop(
        lambda number, values, rows, fresh: tf.reduce_any(fresh),
        split,
        (
            tf.constant(0, tf.int64),
            ids.flat_values,
            ids.value_rowids(),
            tf.ones_like(ids.flat_values, tf.bool),
        ),
        shape_invariants=(tf.TensorShape([]), *[tf.TensorShape([None])] * 3),
    )
    finer = tf.RaggedTensor.from_value_rowids(values, rows, nrows=ids.nrows())
    rows = tf.range(ids.nrows())
    chosen = tf.where(finer.row_lengths() <= max_length, rows, rows + ids.nrows())
    return tf.gather(tf.concat([finer, ids], 0), chosen)


def drop_words(
    ids: tf.RaggedTensor, rate: float, seed: tf.Tensor, kept_ids: Sequence[int] = ()
) -> tf.RaggedTensor:
    """Replaces tokens by the unknown id, each with the same probability (Gal & Ghahramani, 2016).

    Args:
        ids: ragged `(batch, (length))` int32.
        rate: the probability.
        seed: `(2,)` int64; the same seed gives the same choices.
        kept_ids: tokens that always stay.
    """
    values = ids.flat_values
    dropped = tf.random.stateless_uniform(tf.shape(values), seed) < rate
    for kept in kept_ids:
        dropped &= values != kept
    return ids.with_flat_values(tf.where(dropped, UNKNOWN_ID, values))


def augment(
    batches: tf.data.Dataset,
    config: DataConfig,
    source_tokenizer: Tokenizer | None,
    target_tokenizer: Tokenizer,
    seed: int,
    first_step: int,
) -> tf.data.Dataset:
    """Adds the noise that the settings want to training batches.

    Args:
        batches: as `ParallelText` has them, from `first_step` on.
        config: `subword_dropout` and `word_dropout`; 0 for both gives the batches as they are.
        source_tokenizer, target_tokenizer: of the sides; a language model has no source.
        seed: of all choices, together with the step.
        first_step: number of the first batch.
    """
    if not (config.subword_dropout or config.word_dropout):
        return batches
    tokenizers = (source_tokenizer, target_tokenizer)
    parts = [piece_parts(x) if x and config.subword_dropout else None for x in tokenizers]
    tags = source_tokenizer.tag_ids if source_tokenizer else []

    def add(step, batch):
        inputs, labels = batch
        source = inputs.get("source")
        sides = [None if source is None else remove_end(source), remove_end(labels)]

        def seed_of(sequence):
            one = tf.stack([tf.constant(seed, tf.int64), tf.constant(sequence, tf.int64)])
            return tf.random.fold_in(one, step)

        if config.subword_dropout:
            sides = [
                ids
                if ids is None or own is None
                else split_pieces(
                    ids,
                    own,
                    config.subword_dropout,
                    config.max_length - 1,
                    seed_of((_SOURCE_SPLITS, _TARGET_SPLITS)[side]),
                )
                for side, (ids, own) in enumerate(zip(sides, parts, strict=True))
            ]
        source, target = sides
        if config.word_dropout and source is not None:
            source = drop_words(source, config.word_dropout, seed_of(_WORDS), tags)
        labels = end_and_pad(target)
        augmented = {} if source is None else {"source": end_and_pad(source)}
        return augmented | {"target": shift_right(labels)}, labels

    return batches.enumerate(first_step).map(add, num_parallel_calls=tf.data.AUTOTUNE)
