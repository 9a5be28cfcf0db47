"""The scores of each sentence, as JSON lines."""

import json
import pathlib
from collections.abc import Iterator, Sequence
from typing import Any

from tf_transformer.storage.files import replacing
from training.evaluation.settings import EvaluationTexts
from training.metrics.metric import Metric


def sentence_rows(
    texts: EvaluationTexts, translations: Sequence[str], metrics: dict[str, Metric]
) -> Iterator[dict[str, Any]]:
    """Yields the texts and scores of each sentence, in the order of the test set.

    Args:
        texts: the test set.
        translations: the translations of its source.
        metrics: the metrics, by name.
    """
    sources = texts.plain_sources()
    references = [list(reference.lines()) for reference in texts.references]
    scores = {
        name: metric.sentence_scores(translations, references, sources)
        for name, metric in metrics.items()
    }
    for row, translation in enumerate(translations):
        yield {
            "sentence": row + 1,
            **({"document": texts.documents[row]} if texts.documents else {}),
            "source": sources[row],
            "references": [reference[row] for reference in references],
            "translation": translation,
            **{name: of_sentences[row] for name, of_sentences in scores.items()},
        }


def write_sentence_scores(
    path: pathlib.Path,
    texts: EvaluationTexts,
    translations: Sequence[str],
    metrics: dict[str, Metric],
) -> None:
    """Writes the rows of `sentence_rows`, each as JSON on a line.

    Raises:
        OSError: the file cannot be written.
    """
    with replacing(path) as temporary, open(temporary, "w", encoding="utf-8") as file:
        for row in sentence_rows(texts, translations, metrics):
            file.write(json.dumps(row, ensure_ascii=False, allow_nan=False) + "\n")
