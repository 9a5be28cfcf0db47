"""The text files of a parallel corpus, before they are tokenized."""

import functools
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

from tf_transformer.errors import InputError
from tf_transformer.printable import shown
from tf_transformer.text.language_tags import check_tags
from tf_transformer.text.text_file import TextFile
from tf_transformer.word_alignment.pharaoh import check_alignments
from training.config import DataConfig
from training.data.change_detection import ChangeDetector

if TYPE_CHECKING:  # they import TensorFlow
    from tf_transformer.text.tokenizer import Tokenizer
    from training.data.pipeline import ParallelText

Text = TextFile | str | os.PathLike


class TextPair:
    """The files of a parallel corpus, which are read lazily.

        TextPair("train.en", "train.de")
        TextPair("train.tsv", "train.tsv")  # columns 1 and 2

    Args:
        source: the source side; None for a language model. A name is parsed by `TextFile.parse`;
            of a TSV file, the source is column 1 and the target column 2.
        target: the target side.
        alignments: word alignments in Pharaoh's format, a line for each pair, which a head of the
            cross-attention learns, see `losses/guided_alignment.py`; None without.

    Raises:
        InputError: there is no such file, or no target.
    """

    def __init__(self, source: Text | None, target: Text, alignments: Text | None = None):
        if target is None:
            raise InputError(f"expected a file of the target. Received: {shown(target)}")
        self.source = None if source is None else _text_file(source, 1)
        self.target = _text_file(target, 2)
        self.alignments = None if alignments is None else _text_file(alignments, 1)

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

    def check_lines(self) -> None:
        """Reads all files and checks their lines, see `check_parallel`.

        Raises:
            InputError: a file is faulty.
        """
        _ = self.change_detector

    def check(self, languages: Sequence[str], num_tags: int) -> None:
        """Reads all files and checks them.

        Args:
            languages: the vocabulary's languages.
            num_tags: number of their tags that each source sentence must start with.

        Raises:
            InputError: a file is faulty, see `check_parallel`, `check_tags` and `check_alignments`.
        """
        self.check_lines()
        if self.source:
            check_tags(self.source.lines(), languages, str(self.source), num_tags)
            if self.alignments:
                check_alignments(self.alignments, self.source, self.target)

    def tokenized(
        self, tokenizers: "tuple[Tokenizer | None, Tokenizer]", config: DataConfig
    ) -> "ParallelText":
        """Returns the corpus with its tokenizers."""
        from training.data.pipeline import ParallelText

        return ParallelText(
            self.source, self.target, *tokenizers, config, self.change_detector, self.alignments
        )


def _text_file(given: Text, column: int) -> TextFile:
    return given if isinstance(given, TextFile) else TextFile.parse(given, column)
