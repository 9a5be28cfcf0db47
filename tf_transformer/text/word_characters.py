"""Letters and digits of scripts that separate words, and the pieces that begin or end with one.

A term of such a script must not begin within a word. Scripts that write no spaces between words
have no such characters here: each of their characters may be next to any other. This module does
not import TensorFlow.
"""

import re
import unicodedata
from typing import NamedTuple

import numpy as np

from tf_transformer.text.vocabulary import WORD_BEGIN, Vocabulary

# Of the syntax of RE2, for character classes.
WORD_CLASS = r"\p{L}\p{N}\p{M}"
UNSPACED_CLASS = r"\p{Han}\p{Hiragana}\p{Katakana}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}\p{Tibetan}"
_UNSPACED_NAMES = (
    *("CJK ", "HIRAGANA", "KATAKANA", "HALFWIDTH KATAKANA", "THAI ", "LAO ", "KHMER "),
    *("MYANMAR ", "TIBETAN "),
)
_BYTE = re.compile("<0x([0-9A-F]{2})>")


class PieceTables(NamedTuple):
    """What a search must know of the pieces' characters, `(vocab,)` bool each.

    Attributes:
        begins_in_word: whether a piece continues the word before it, if that ends in a letter or
            digit.
        ends_in_word: whether a piece ends in a letter or digit, so that one may continue its word.
    """

    begins_in_word: np.ndarray
    ends_in_word: np.ndarray

    @classmethod
    def of(cls, vocabulary: Vocabulary) -> "PieceTables":
        """Returns the tables of a vocabulary."""
        if vocabulary.word_separators:  # each piece is a word
            nothing = np.zeros(vocabulary.vocab_size, bool)
            return cls(nothing, nothing)
        texts = [_BYTE.sub(_byte_character, piece) for piece in vocabulary.pieces]
        begins = [text != "" and is_word_character(text[0]) for text in texts]
        ends = [text != "" and is_word_character(text[-1]) for text in texts]
        return cls(np.array(begins), np.array(ends))


def is_word_character(character: str) -> bool:
    """Returns whether a character is a letter, digit or mark of a script that separates words."""
    if character.isascii():
        return character.isalnum()
    is_word = character != WORD_BEGIN and unicodedata.category(character)[0] in "LNM"
    return is_word and not unicodedata.name(character, "").startswith(_UNSPACED_NAMES)


def is_unspaced(character: str) -> bool:
    """Returns whether a character is a letter or digit of a script without spaces between words."""
    if character.isascii():  # the usual case, and no character at all
        return False
    is_letter = unicodedata.category(character)[0] in "LN"
    return is_letter and unicodedata.name(character, "").startswith(_UNSPACED_NAMES)


def _byte_character(match):
    byte = int(match[1], 16)
    return chr(byte) if byte < 128 else "\ufffd"
