"""What an evaluation is of: the texts of the test set, and how they are translated."""

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tf_transformer.decoding.search_options import DEFAULT_BEAM_SIZE, DEFAULT_LENGTH_PENALTY
from tf_transformer.text.language_tags import (
    check_tags,
    check_untagged,
    find_tags,
    without_common_tags,
)
from tf_transformer.text.parallel_text import check_parallel
from tf_transformer.text.text_file import TextFile
from training.evaluation.perturbations import Perturbation

if TYPE_CHECKING:  # they import TensorFlow
    from tf_transformer.inference.calibration import Calibration
    from tf_transformer.shortlists.table import ShortlistTable


@dataclasses.dataclass(frozen=True, kw_only=True)
class EvaluationTexts:
    """The texts of a test set.

    Args:
        source: source sentences.
        references: one or more texts of reference translations.
        systems: translations of the same source by other systems, to compare with.
        perturbations: noise with which the source is translated again.
        bleu_tokenizer: sacreBLEU's name of the tokenizer for BLEU.
        target_language: language whose tag is prepended to each source sentence.
        source_language: language of the source, for models whose sources name it.
        test_set: what names the test set, if it is one that sacreBLEU has; empty for other files.
        documents: the document of each sentence; empty if the sentences are not of documents.
    """

    source: TextFile
    references: Sequence[TextFile]
    systems: Sequence[TextFile] = ()
    perturbations: Sequence[Perturbation] = ()
    bleu_tokenizer: str = "13a"
    target_language: str | None = None
    source_language: str | None = None
    test_set: dict[str, Any] = dataclasses.field(default_factory=dict)
    documents: Sequence[str] = ()

    def check(self) -> None:
        """Checks that all texts have as many lines.

        Raises:
            InputError: they have not.
        """
        for reference in self.references:
            num_sentences = check_parallel(self.source, reference)
        if self.systems:
            from training.evaluation.significance import check_systems

            lines: dict[str, Sequence[str]] = {
                str(system): list(system.lines()) for system in self.systems
            }
            check_systems(lines, num_sentences)

    def plain_sources(self) -> list[str]:
        """Returns the source sentences without language tags."""
        return without_common_tags(list(self.source.lines()))

    def tagged(self, languages: Sequence[str], num_tags: int) -> "EvaluationTexts":
        """Returns the texts with the tags of the languages, or checks that there are those needed.

        Args:
            languages: the languages of the model.
            num_tags: number of tags that it needs.

        Raises:
            InputError: a tag is missing or superfluous.
        """
        if self.target_language is None:
            check_tags(self.source.lines(), languages, str(self.source), num_tags)
            return self
        return self.with_tags(
            find_tags(self.target_language, self.source_language, languages, num_tags)
        )

    def with_tags(self, tags: str) -> "EvaluationTexts":
        """Returns the texts with tags before each source sentence.

        Raises:
            InputError: a sentence has tags.
        """
        for number, line in enumerate(self.source.lines(), 1):
            check_untagged(line, f"{self.source}:{number}")
        return dataclasses.replace(self, source=dataclasses.replace(self.source, prefix=tags))


@dataclasses.dataclass(frozen=True, kw_only=True)
class SearchSettings:
    """How the model of a model directory translates.

    Args:
        beam_size: see `Translator`.
        length_penalty: see `Translator`.
        dtype: see `load_for_decoding`.
        shortlist: the target pieces to consider, see `Translator`.
        calibration: calibration of "int8", or None.
        xla: whether to compile the search, see `ModelPredictor`.
    """

    beam_size: int = DEFAULT_BEAM_SIZE
    length_penalty: float = DEFAULT_LENGTH_PENALTY
    dtype: str = "float32"
    shortlist: "ShortlistTable | None" = None
    calibration: "Calibration | None" = None
    xla: str = "off"
