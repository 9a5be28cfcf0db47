"""The text files of a parallel corpus, before they are tokenized."""

import dataclasses
import functools
from collections.abc import Sequence

from tf_transformer.text.language_tags import check_tags
from tf_transformer.text.text_file import TextFile
from tf_transformer.text.tokenizer import Tokenizer
from tf_transformer.word_alignment.pharaoh import check_alignments
from training.config import DataConfig
from training.data.change_detection import ChangeDetector
from training.data.pipeline import ParallelText


@dataclasses.dataclass(frozen=True)
class TextPair:
    """The files of a parallel corpus, which are read lazily.

    Args:
        source: the source side; None for a language model.
        target: the target side.
        alignments: word alignments in Pharaoh's format, a line for each pair; None without.
    """

    source: TextFile | None
    target: TextFile
    alignments: TextFile | None = None

    @property
    def has_source(self) -> bool:
        """Whether there is a source side."""
        return self.source is not None

    @functools.cached_property
    def change_detector(self) -> ChangeDetector:
        """Detects changes of the files since the first access.

        Raises:
            InputError: the texts are faulty, see `check_parallel`.
        """
        return ChangeDetector(self.source, self.target, self.alignments)

    @property
    def digest(self) -> str:
        """The digest of all files at the first access."""
        return self.change_detector.digest

    def check(self, languages: Sequence[str], num_tags: int) -> None:
        """Reads all files and checks them.

        Args:
            languages: the vocabulary's languages.
            num_tags: number of their tags that each source sentence must start with.

        Raises:
            InputError: a file is faulty, see `check_parallel`, `check_tags` and `check_alignments`.
        """
        _ = self.change_detector
        if self.source:
            check_tags(self.source.lines(), languages, str(self.source), num_tags)
            if self.alignments:
                check_alignments(self.alignments, self.source, self.target)

    def tokenized(
        self, tokenizers: tuple[Tokenizer | None, Tokenizer], config: DataConfig
    ) -> ParallelText:
        """Returns the corpus with its tokenizers."""
        return ParallelText(
            self.source, self.target, *tokenizers, config, self.change_detector, self.alignments
        )
