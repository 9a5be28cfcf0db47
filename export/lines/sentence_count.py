"""Counts the lines that look like several sentences, whose translation may lack their end."""

import functools
import re
import sys

# What may end a sentence within a line; without one, nothing needs to be split.
_SIGN, _WORD = re.compile(r"[^\w ,;:'()-]"), re.compile(r"\w")


class SentenceCount:
    """Counts lines of several sentences.

    Attributes:
        num_several: number of the lines so far.
    """

    def __init__(self) -> None:
        self.num_several = 0

    @functools.cached_property
    def _split(self):
        from tf_transformer.documents.sentence_splitter import sentence_splitter

        return sentence_splitter()

    def add(self, line: bytes) -> None:
        """Counts a line in UTF-8, if it is more than one sentence with a letter or a digit."""
        text = line.decode()
        sign = _SIGN.search(text)
        if sign is None or _WORD.search(text, sign.end()) is None:
            return
        self.num_several += sum(bool(_WORD.search(x)) for x in self._split(text)) > 1

    def report(self, lacking: str = "", can_split: bool = True) -> None:
        """Prints the number, if there are any, and what to do.

        Args:
            lacking: the signature that translates several, if the model lacks it.
            can_split: whether the option that splits them is valid with the others.
        """
        if self.num_several:
            advice = "use --split-sentences" if can_split else "give one sentence per line"
            if can_split and lacking:
                advice += f", for which the exported model needs the signature `{lacking}`"
            print(
                "tf-transformer: lines that look like several sentences, of which the end may be "
                f"missing: {self.num_several}; {advice}",
                file=sys.stderr,
            )
