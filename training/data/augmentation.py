"""Data augmentation: subword regularization and word dropout on batches of token ids.

It also turns the links of words into alignments of tokens, which depend on the segmentation.

The random choices are a pure function of the seed and the step, so a resumed run makes the same
ones. SentencePiece's own sampling draws from a generator of the process and cannot be repeated.
"""

import re
from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from tf_transformer.text.framing import end_and_pad, remove_end, shift_right
from tf_transformer.text.special_ids import UNKNOWN_ID
from tf_transformer.text.tokenizer import Tokenizer
from training.config import DataConfig
from training.data.alignments import align_tokens

# Indices of the random streams of a batch, which are folded into its seed.
_SOURCE_SPLITS, _TARGET_SPLITS, _WORDS = range(3)
_NEVER_SPLIT = re.compile(r"<.+>")  # special, byte and tag pieces


def piece_parts(tokenizer: Tokenizer) -> np.ndarray:
    """Returns the two pieces of the vocabulary that each piece splits into.

    Of all splits of a piece, the one with the highest sum of SentencePiece scores is chosen: with
    BPE the parts that were merged first, with unigram the most probable ones.

    Args:
        tokenizer: the tokenizer of the vocabulary.

    Returns:
        `(vocab_size, 2)` int32; -1 for pieces that cannot be split.
    """
    ids = {
        piece: token_id
        for token_id, piece in enumerate(tokenizer.pieces)
        if not _NEVER_SPLIT.fullmatch(piece)
    }
    scores = tokenizer.scores
    parts = np.full((tokenizer.vocab_size, 2), -1, np.int32)
    for piece, token_id in ids.items():
        splits = [
            (ids[piece[:index]], ids[piece[index:]])
            for index in range(1, len(piece))
            if piece[:index] in ids and piece[index:] in ids
        ]
        if splits:
            parts[token_id] = max(splits, key=lambda pair: scores[pair[0]] + scores[pair[1]])
    return parts


def split_pieces(
    ids: tf.RaggedTensor, parts: np.ndarray, rate: float, max_length: int, seed: tf.Tensor
) -> tf.RaggedTensor:
    """Splits pieces into their parts at random, and the parts again: subword regularization.

    BPE-dropout (Provilkov et al., 2020) skips merges with a probability while it builds a word;
    this function undoes merges with that probability, from the whole word down. The text is
    unchanged. Deviation from BPE-dropout: segmentations that undoing merges cannot reach do not
    occur.

    Args:
        ids: ragged `(batch, (length))` int32.
        parts: the result of `piece_parts`.
        rate: probability that a piece is split.
        max_length: a sentence that would become longer is left unchanged.
        seed: `(2,)` int64.

    Returns:
        Ragged `(batch, (new_length))` int32.
    """
    table = tf.constant(parts)

    def split(level, values, rows, is_candidate):
        """Splits some candidates: at first all pieces, then the parts of the previous level."""
        found = tf.gather(table, values)
        draws = tf.random.stateless_uniform(tf.shape(values), seed + tf.stack([0, level]))
        is_split = is_candidate & (found[:, 0] >= 0) & (draws < rate)
        repeats = tf.where(is_split, 2, 1)
        left = tf.where(is_split, found[:, 0], values)
        right = tf.where(is_split, found[:, 1], values)
        starts = tf.cumsum(repeats, exclusive=True)
        values, rows, is_candidate = (tf.repeat(x, repeats) for x in (left, rows, is_split))
        values = tf.tensor_scatter_nd_update(values, (starts + repeats - 1)[:, tf.newaxis], right)
        return level + 1, values, rows, is_candidate

    _, values, rows, _ = tf.while_loop(
        lambda level, values, rows, is_candidate: tf.reduce_any(is_candidate),
        split,
        (
            tf.constant(0, tf.int64),
            ids.flat_values,
            ids.value_rowids(),
            tf.ones_like(ids.flat_values, tf.bool),
        ),
        shape_invariants=(tf.TensorShape([]), *[tf.TensorShape([None])] * 3),
    )
    split_ids = tf.RaggedTensor.from_value_rowids(values, rows, nrows=ids.nrows())
    rows = tf.range(ids.nrows())
    chosen = tf.where(split_ids.row_lengths() <= max_length, rows, rows + ids.nrows())
    return tf.gather(tf.concat([split_ids, ids], 0), chosen)


def drop_words(
    ids: tf.RaggedTensor, rate: float, seed: tf.Tensor, kept_ids: Sequence[int] = ()
) -> tf.RaggedTensor:
    """Replaces each token by the unknown id with a probability (Gal and Ghahramani, 2016).

    Args:
        ids: ragged `(batch, (length))` int32.
        rate: the probability.
        seed: `(2,)` int64; the same seed gives the same choices.
        kept_ids: tokens that are never replaced.

    Returns:
        Ragged `(batch, (length))` int32.
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
    """Applies subword dropout and word dropout to training batches, and aligns their tokens.

    Args:
        batches: batches from `ParallelText.training_batches`, from `first_step` on.
        config: settings with the two rates; if both are 0 and there are no links, `batches` is
            returned unchanged.
        source_tokenizer: tokenizer of the source; None for a language model.
        target_tokenizer: tokenizer of the target.
        seed: seed of all random choices, together with the step.
        first_step: step of the first batch.

    Returns:
        Batches of the same structure, except that `"links"` are replaced by the `"alignment"`, see
        `align_tokens`.
    """
    if not (config.subword_dropout or config.word_dropout or "links" in batches.element_spec[0]):
        return batches
    tokenizers = (source_tokenizer, target_tokenizer)
    parts = [piece_parts(x) if x and config.subword_dropout else None for x in tokenizers]
    kept = source_tokenizer.tag_ids + source_tokenizer.begin_ids if source_tokenizer else []

    def augment_batch(step, batch):
        inputs, labels = batch
        source = inputs.get("source")
        sides = [None if source is None else remove_end(source), remove_end(labels)]

        def seed_of(stream):
            key = tf.stack([tf.constant(seed, tf.int64), tf.constant(stream, tf.int64)])
            return tf.random.fold_in(key, step)

        if config.subword_dropout:
            sides = [
                ids
                if ids is None or side_parts is None
                else split_pieces(
                    ids,
                    side_parts,
                    config.subword_dropout,
                    config.max_length - 1,
                    seed_of((_SOURCE_SPLITS, _TARGET_SPLITS)[side]),
                )
                for side, (ids, side_parts) in enumerate(zip(sides, parts, strict=True))
            ]
        source, target = sides
        augmented = {}
        if (
            "links" in inputs and source_tokenizer is not None
        ):  # before words that are dropped become unknown
            augmented["alignment"] = align_tokens(
                (source, source_tokenizer), (target, target_tokenizer), inputs["links"]
            )
        if config.word_dropout and source is not None:
            source = drop_words(source, config.word_dropout, seed_of(_WORDS), kept)
        labels = end_and_pad(target)
        augmented |= {} if source is None else {"source": end_and_pad(source)}
        return augmented | {"target": shift_right(labels)}, labels

    return batches.enumerate(first_step).map(augment_batch, num_parallel_calls=tf.data.AUTOTUNE)
