"""Shortlists from the alignments of a trained model's own attention."""

import pathlib
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from tf_transformer.command_line.progress import progress_bar
from tf_transformer.errors import InputError
from tf_transformer.models.transformer import Transformer
from tf_transformer.shortlists.table import ShortlistTable
from tf_transformer.storage.model_dir import load_model
from tf_transformer.text.framing import move_tags
from tf_transformer.text.parallel_text import check_parallel
from tf_transformer.text.special_ids import END_ID, NUM_SPECIAL, PAD_ID
from tf_transformer.text.text_file import TextFile
from training.config import DataConfig
from training.data.pipeline import ParallelText
from training.shortlists.pair_counts import PairCounts


class Coverage(NamedTuple):
    """How well a shortlist covers a text.

    Attributes:
        share: share of the target pieces that are candidates of their sentence, from 0 to 1.
        candidates: mean number of candidates of a sentence.
    """

    share: float
    candidates: float


def train_shortlist(
    model_dir: pathlib.Path,
    source: TextFile,
    target: TextFile,
    *,
    most: int,
    num_always: int,
    validation: tuple[TextFile, TextFile] | None = None,
) -> tuple[ShortlistTable, Coverage]:
    """Aligns a parallel text by the model's attention, and counts the translations of each piece.

    In each decoder layer, a target piece is aligned with the source piece to which it attends most
    by the mean over the heads. The layers err differently, and together find more of the pieces
    that the model produces than any of them alone, also of a model with an `alignment_head`, which
    attends to all pieces of the aligned word alike.

    Args:
        model_dir: directory of a translation model.
        source: the source text.
        target: its translations; pairs that are longer than the model's limit, or have an empty
            side, are left out.
        most: largest number of candidates of a source piece.
        num_always: number of the most frequent target pieces, which are always candidates.
        validation: source and target of another text, for the coverage; None measures it on the
            text itself, on which it is too high.

    Returns:
        The shortlist, and its coverage.

    Raises:
        InputError: the model directory or a text is invalid, or no pair is left.
    """
    model, source_tokenizer, target_tokenizer = load_model(model_dir)
    config = model.config
    if not isinstance(model, Transformer):
        raise InputError(f"{model_dir}: a {type(model).__name__} has no source to align")

    def pairs(source, target, label):
        num_lines = check_parallel(source, target)
        settings = DataConfig(max_length=config.max_length)
        corpus = ParallelText(source, target, source_tokenizer, target_tokenizer, settings)
        with progress_bar(total=num_lines, desc=label, unit=" pairs") as progress:
            for inputs, labels in corpus.batches():
                yield move_tags(inputs, labels, config.num_target_tags)
                progress.update(len(labels))

    target_vocab_size = model.target_embedding.vocab_size
    counts = PairCounts(model.source_embedding.vocab_size, target_vocab_size)
    align = tf.function(
        lambda inputs: _best_positions(model, inputs), autograph=False, reduce_retracing=True
    )
    is_empty = True
    for inputs, labels in pairs(source, target, "aligning"):
        is_empty = False
        for positions in align(inputs):
            counts.add(*_aligned(inputs["source"].numpy(), labels.numpy(), positions.numpy()))
    if is_empty:
        raise InputError(
            f"{source} and {target}: no pair is left to align: all have an empty side or are "
            f"longer than the model's limit of {config.max_length} tokens"
        )
    table = counts.table(most, num_always)
    texts, label = (validation, "validation") if validation else ((source, target), "coverage")
    return table, coverage(table, pairs(*texts, label), target_vocab_size)


def _best_positions(model: Transformer, inputs):
    """Returns the source position to which each target position attends most, in every layer.

    Returns:
        A list of `(batch, target_length)` int64.
    """
    is_piece = (inputs["source"] >= NUM_SPECIAL)[:, tf.newaxis]
    return [
        tf.argmax(tf.where(is_piece, tf.reduce_mean(weights, axis=1), -1.0), axis=2)
        for weights in model.states(inputs).decoder.cross_attention
    ]


def _aligned(source, labels, positions):
    """Returns the source and target ids of all aligned pieces."""
    aligned = np.take_along_axis(source, positions, axis=1)
    is_piece = (labels >= NUM_SPECIAL) & (aligned >= NUM_SPECIAL)
    return aligned[is_piece], labels[is_piece]


def coverage(
    table: ShortlistTable, batches: Iterator[tuple[dict, tf.Tensor]], target_vocab_size: int
) -> Coverage:
    """Measures how well a shortlist covers a text.

    Args:
        table: the shortlist.
        batches: inputs and labels of the text.
        target_vocab_size: number of target ids.
    """
    covered = pieces = candidates = rows = 0
    is_always = np.zeros(target_vocab_size, bool)
    is_always[:NUM_SPECIAL] = True
    is_always[table.always] = True
    for inputs, labels in batches:
        for source, target in zip(inputs["source"].numpy(), labels.numpy(), strict=True):
            is_candidate = is_always.copy()
            is_candidate[table.by_source[source[source != PAD_ID]]] = True
            target = target[(target != PAD_ID) & (target != END_ID)]
            covered += int(is_candidate[target].sum())
            pieces += len(target)
            candidates += int(is_candidate.sum())
            rows += 1
    return Coverage(covered / max(pieces, 1), candidates / max(rows, 1))
