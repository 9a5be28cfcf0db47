"""Logging how many pairs of a corpus the length filter keeps."""

import logging

from tf_transformer.errors import InputError
from training.data.pipeline import ParallelText

_log = logging.getLogger(__name__)


def report_corpus(name: str, corpus: ParallelText) -> None:
    """Logs how many pairs the length filter keeps and drops, and how many have alignments.

    Args:
        name: "training" or "validation".
        corpus: the corpus, which is read once.

    Raises:
        InputError: the filter drops all pairs, or no link can be used.
    """
    _log.info("tokenizing the %s corpus", name)
    statistics = corpus.statistics(f"reading the {name} corpus")
    if statistics.kept == 0:
        raise InputError(
            f"no pair of the {name} corpus {corpus.source or ''}, {corpus.target} is left: "
            f"{statistics.empty} have an empty side, {statistics.too_long} are longer than "
            f"data.max_length={corpus.config.max_length} tokens"
        )
    if corpus.alignments and not statistics.aligned:
        raise InputError(
            f"{corpus.alignments}: no pair has links of the words that SentencePiece finds in it; "
            "expected words that are separated by spaces"
        )
    dropped = ", ".join(
        f"{count:,} dropped as {reason}"
        for count, reason in (
            (statistics.empty, "empty on a side"),
            (statistics.too_long, f"longer than {corpus.config.max_length} tokens"),
        )
        if count
    )
    _log.info(
        "%s corpus: %s of %s %s kept%s%s %s target tokens",
        name,
        f"{statistics.kept:,}",
        f"{statistics.pairs:,}",
        "pairs" if corpus.source else "sentences",
        f" ({dropped})" if dropped else "",
        f"; {statistics.source_tokens:,} source and" if corpus.source else ";",
        f"{statistics.target_tokens:,}",
    )
    if corpus.alignments:
        _log.info("word alignments: of %s pairs", f"{statistics.aligned:,}")
