"""Finding pairs of which a side is in another language than it should be."""

import dataclasses
import pathlib
from collections.abc import Sequence

import numpy as np

from tf_transformer.language_id.classifier import LanguageClassifier, check_threshold
from tf_transformer.language_id.classifier_file import read_classifier, write_classifier
from tf_transformer.storage.own_files import check_own_file
from training.prepared.prepared_folder import WORK_NAME

# The kind of fault, beside those of `shard_tasks.FAULTS`.
OTHER_LANGUAGE = "in another language"
_FILE_NAME = "language-id.safetensors"


@dataclasses.dataclass(frozen=True)
class LanguageFilter:
    """The languages that a corpus should be in.

    A side is in another language if the probability of its own is below a threshold. Text without
    letters, such as numbers, is in every language.

    Args:
        classifier: the classifier.
        languages: those of source and target; None: any language.
        threshold: the threshold, from 0 to 1.

    Raises:
        InputError: the threshold is out of range, or the classifier does not know a language.
    """

    classifier: LanguageClassifier
    languages: tuple[str | None, str | None]
    threshold: float

    def __post_init__(self) -> None:
        check_threshold(self.threshold)
        for language, side in zip(self.languages, ("source", "target"), strict=True):
            if language is not None:
                self.classifier.index(language, f"--{side}-language")

    def facts(self) -> dict[str, object]:
        """Returns what the result depends on, as JSON."""
        return {
            "classifier_digest_blake2b": self.classifier.digest,
            "languages": list(self.languages),
            "threshold": self.threshold,
        }

    def in_other_language(self, pairs: Sequence[tuple[str, str]]) -> np.ndarray:
        """Returns whether a side of each pair is in another language, `(pairs,)` bool.

        Args:
            pairs: sources and targets.
        """
        is_other = np.zeros(len(pairs), bool)
        for side, language in enumerate(self.languages):
            if language is not None:
                scores = self.classifier.score([pair[side].encode() for pair in pairs])
                index = self.classifier.languages.index(language)
                is_below = np.exp(scores.log_probs[:, index]) < self.threshold
                is_other |= is_below & (scores.num_ngrams > 0)
        return is_other


@dataclasses.dataclass(frozen=True)
class StoredFilter:
    """A `LanguageFilter` whose classifier is a file in the folder of intermediate files.

    It is what the processes of a preparation get, instead of the weights.

    Args:
        output: the prepared folder.
        languages: see `LanguageFilter`.
        threshold: see `LanguageFilter`.
    """

    output: pathlib.Path
    languages: tuple[str | None, str | None]
    threshold: float

    @classmethod
    def write(cls, language_filter: LanguageFilter, output: pathlib.Path) -> "StoredFilter":
        """Writes the classifier of a filter.

        Args:
            language_filter: the filter.
            output: the prepared folder, with its folder of intermediate files.
        """
        path = output / WORK_NAME / _FILE_NAME
        check_own_file(path)
        write_classifier(path, language_filter.classifier)
        return cls(output, language_filter.languages, language_filter.threshold)

    def read(self) -> LanguageFilter:
        """Reads the filter."""
        classifier = read_classifier(self.output / WORK_NAME / _FILE_NAME)
        return LanguageFilter(classifier, self.languages, self.threshold)
