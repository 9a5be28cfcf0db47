"""From the batches of a corpus to those that the model sees: the one place that changes them.

Only noise is added earlier, to the text before it is tokenized, see `ParallelText`.
"""

import tensorflow as tf

from tf_transformer.text.framing import move_tags
from tf_transformer.text.tokenizer import Tokenizer
from training.config import TrainingConfig
from training.data.alignments import move_alignment
from training.data.augmentation import augment
from training.data.pipeline import ParallelText
from training.prepared.prepared_text import PreparedText


def training_batches(
    corpus: ParallelText | PreparedText,
    tokenizers: tuple[Tokenizer | None, Tokenizer],
    config: TrainingConfig,
    num_tags: int,
    step: int,
) -> tf.data.Dataset:
    """Returns an endless stream of batches, with subword and word dropout, from a step on.

    Args:
        corpus: the training corpus.
        tokenizers: those of source and target.
        config: settings of the run.
        num_tags: tags of each source sentence that move to the target, see `move_tags`.
        step: number of batches to skip.
    """
    seed = config.optimization.seed
    batches = corpus.training_batches(seed, step)
    batches = augment(batches, config.data, *tokenizers, seed, step)
    return move_batch_tags(batches, num_tags).prefetch(tf.data.AUTOTUNE)


def validation_batches(corpus: ParallelText, num_tags: int) -> tf.data.Dataset:
    """Returns the batches of one pass, with their number, without which `fit` warns at the end."""
    batches = move_batch_tags(corpus.batches(), num_tags)
    num_batches = sum(1 for _ in batches)
    return batches.apply(tf.data.experimental.assert_cardinality(num_batches))


def move_batch_tags(batches: tf.data.Dataset, num_tags: int) -> tf.data.Dataset:
    """Applies `move_tags` and `move_alignment` if targets have tags."""
    if not num_tags:
        return batches

    def move(inputs, labels):
        moved, labels = move_tags(inputs, labels, num_tags)
        if "alignment" in inputs:
            moved["alignment"] = move_alignment(inputs["alignment"], num_tags)
        return moved, labels

    return batches.map(move, num_parallel_calls=tf.data.AUTOTUNE)
