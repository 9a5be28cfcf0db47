"""Lists of terms and names of protected spans, checked, as inputs of a search for one sentence.

This module does not import TensorFlow.
"""

import hashlib
import os
import pathlib
import unicodedata
from collections.abc import Collection, Iterable, Sequence
from typing import Any

from tf_transformer.errors import InputError
from tf_transformer.printable import shown
from tf_transformer.terms.limits import MAX_PHRASE_BYTES, SPAN_BITS
from tf_transformer.text.text_file import TextFile
from tf_transformer.text.texts import encode_text

MAX_TERMS = 100_000


class Glossary:
    """Pairs of phrases: wherever the first occurs in a source, the translation has the second.

    Args:
        pairs: pairs of a source phrase and a target phrase; a pair whose source phrase is empty
            applies to every sentence.

    Raises:
        InputError: an entry is no pair of strings, a target phrase is empty, or a phrase is longer
            than `MAX_PHRASE_BYTES` or has a tab or a line break; or there are more than
            `MAX_TERMS`.
    """

    def __init__(self, pairs: Iterable[tuple[str, str]]):
        if isinstance(pairs, str | bytes) or not isinstance(pairs, Iterable):
            raise InputError(
                "`terms` must be a list of pairs of a source phrase and a target phrase. "
                f"Received: {shown(pairs)}"
            )
        self._entries: dict[tuple[str, str], tuple[str, str]] = {}
        for index, pair in enumerate(pairs):
            _check_pair(pair, f"`terms`, index {index}")
            self._add(*pair, "`terms`")

    @classmethod
    def read(cls, path: str | os.PathLike) -> "Glossary":
        """Reads a file of lines `source phrase<TAB>target phrase`; blank lines are skipped.

        Args:
            path: the file: plain, .gz or .zst.

        Raises:
            InputError: no such file, or a line is not as it should be; the message names it.
        """
        path = pathlib.Path(path)
        if not path.is_file():
            raise InputError(f"{path}: no such file")
        glossary = cls(())
        for number, line in enumerate(TextFile(path).lines(), 1):
            if line.strip():
                fields = line.split("\t")
                if len(fields) != 2:
                    raise InputError(
                        f"{path}:{number}: expected two phrases separated by a tab, got "
                        f"{len(fields) - 1} tabs"
                    )
                _check_pair(fields, f"{path}:{number}")
                glossary._add(fields[0], fields[1], str(path))
        return glossary

    def _add(self, source, target, where):
        searched = _searched(source)
        self._entries[source, target] = searched, _searched(source.casefold())
        if len(self._entries) > MAX_TERMS:
            raise InputError(f"{where}: expected at most {MAX_TERMS:,} terms, got more")

    def __len__(self) -> int:
        return len(self._entries)

    def digest(self) -> str:
        """Returns a digest of the terms."""
        lines = "\n".join("\t".join(pair) for pair in self._entries)
        return hashlib.blake2b(lines.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()

    def entries_for(self, sentence: str | bytes, any_case: bool = False) -> str:
        """Returns the entries for the input `terms` of a sentence.

        These are all that can apply. Whether a phrase occurs as whole words, the search decides.

        Args:
            sentence: the source.
            any_case: whether case does not count, as in a sentence in capitals.
        """
        if isinstance(sentence, bytes):
            sentence = sentence.decode("utf-8", "replace")
        searched = _searched(sentence)
        any_searched = _searched(sentence.casefold()) if any_case else ""
        return "\n".join(
            "\t".join(pair)
            for pair, (source, folded) in self._entries.items()
            if source in searched or folded in any_searched
        )


def protection(kinds: Sequence[str]) -> int:
    """Returns the input `protect` that protects some kinds of spans, see `SPAN_BITS`.

    Args:
        kinds: names of the kinds.

    Raises:
        InputError: a kind does not exist.
    """
    is_list = isinstance(kinds, Collection) and not isinstance(kinds, str)
    if not is_list or not all(kind in tuple(SPAN_BITS) for kind in kinds):
        raise InputError(
            f"`protect` must be a list of some of {', '.join(SPAN_BITS)}. Received: {shown(kinds)}"
        )
    return sum(SPAN_BITS[kind] for kind in set(kinds))


def _searched(text: str) -> str:
    return "".join(unicodedata.normalize("NFC", text).split())


def _check_pair(pair: Any, where: str):
    is_pair = isinstance(pair, tuple | list) and len(pair) == 2
    if not is_pair or not all(isinstance(phrase, str) for phrase in pair):
        raise InputError(
            f"{where}: expected a pair of a source phrase and a target phrase, got {shown(pair)}"
        )
    for phrase in pair:
        if any(character in phrase for character in "\t\n"):
            raise InputError(f"{where}: expected no tab or line break, got {shown(phrase)}")
        num_bytes = len(encode_text(phrase, where))
        if num_bytes > MAX_PHRASE_BYTES:
            raise InputError(
                f"{where}: expected phrases of at most {MAX_PHRASE_BYTES} bytes, got "
                f"{num_bytes:,}: {shown(phrase)}"
            )
    if not pair[1].strip():
        raise InputError(f"{where}: expected a target phrase, got {shown(pair)}")
