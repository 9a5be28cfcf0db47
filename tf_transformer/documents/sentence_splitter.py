"""Sentences of texts without TensorFlow, by the same rules as in the graph."""

import functools
import itertools
import unicodedata
from collections.abc import Callable, Iterable

import re2

from tf_transformer.documents.abbreviations import LANGUAGES, check_languages
from tf_transformer.documents.sentence_rules import MARK, sentence_rules


def sentence_splitter(languages: Iterable[str] = LANGUAGES) -> Callable[[str], list[str]]:
    """Returns a function that splits a text into sentences.

    The sentences, one after the other, are the text; white space belongs to the sentence before it,
    see `split_sentences`. The time is linear in the length of the text.

    Args:
        languages: codes of languages whose abbreviations end no sentence; the default is all that
            have a list.

    Raises:
        InputError: a language is no code of a language.
    """
    return functools.partial(_split, check_languages(languages))


@functools.cache
def _compiled_rules(languages):
    return [
        (
            re2.compile(pattern),
            replacement.replace(r"\0", r"\g<0>"),  # the whole match, as Python writes it
            condition and re2.compile(condition),
        )
        for pattern, replacement, condition in sentence_rules(languages)
    ]


def _split(languages, text: str) -> list[str]:
    marked = text
    for pattern, replacement, condition in _compiled_rules(languages):
        if not condition or condition.search(marked):
            marked = pattern.sub(replacement, marked)
    # The marks apart, each character of the text has become one.
    ends = itertools.accumulate(len(piece) for piece in marked.split(MARK) if piece)
    return [text[start:end] for start, end in itertools.pairwise([0, *ends])]


def space_between(before: str, source: str) -> str:
    """Returns what is between the translations of two sentences, as in `join_sentences`.

    Args:
        before: the translation of the first one.
        source: the white space between them in the source.
    """
    end = len(before)
    while end and unicodedata.category(before[end - 1]) in ("Pe", "Pf"):
        end -= 1
    ends_wide = before[:end].endswith(("。", "！", "？", "｡"))
    if ends_wide and source == " ":
        return ""
    return source if source or ends_wide else " "
