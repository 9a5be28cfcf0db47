"""How often a language classifier is right on text in known languages."""

from collections.abc import Mapping, Sequence

import numpy as np
import tabulate

from tf_transformer.language_id.classifier import UNDETERMINED, LanguageClassifier


def confusion(classifier: LanguageClassifier, texts: Mapping[str, Sequence[str]]) -> np.ndarray:
    """Counts the answers for texts of each language.

    Args:
        classifier: the classifier.
        texts: texts by their language, in the order of the classifier's.

    Returns:
        `(languages, languages + 1)` counts: a row for each language of `texts`, a column for each
        answer; the last one is `UNDETERMINED`.
    """
    answers = [*texts, UNDETERMINED]
    rows = []
    for lines in texts.values():
        found = classifier.identify([line.encode() for line in lines]).languages
        rows.append(np.bincount([answers.index(name) for name in found], minlength=len(answers)))
    return np.array(rows)


def accuracy_table(languages: Sequence[str], counts: np.ndarray) -> str:
    """Returns the counts of `confusion` and the accuracies as a table in Markdown.

    Args:
        languages: the languages of rows and columns.
        counts: the result of `confusion`.
    """
    rows = [
        [name, *row.tolist(), f"{100 * row[index] / max(row.sum(), 1):.2f} %"]
        for index, (name, row) in enumerate(zip(languages, counts, strict=True))
    ]
    headers = ["text in", *(f"as {name}" for name in languages), "undetermined", "accuracy"]
    return tabulate.tabulate(rows, headers, tablefmt="pipe", disable_numparse=True)
