"""Letters and digits of scripts that separate words, and what pieces begin and end with.

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
# What stands within numbers and addresses: 3.5, 10:30, www.a.de/b, a@b.de.
CONNECTORS = ".,:/@"
# Numbers whose form depends on the language: 3.5, 1,000, 4/1/2015, and prices. Of the syntax of RE2
# and of `re`.
_DIGIT, _SPACE = "[0-9\uff10-\uff19]", "[ \u00a0\u2007\u202f]"
_CURRENCY_SIGN = "[$¢-¥฿៛₠-\u20cf﷼﹩\uff04\uffe0\uffe1\uffe5\uffe6]"
LOCALIZED_NUMBER = (
    f"{_DIGIT}[.,/\uff0c\uff0e\uff0f]{_DIGIT}"
    f"|{_CURRENCY_SIGN}{_SPACE}?{_DIGIT}|{_DIGIT}{_SPACE}?{_CURRENCY_SIGN}"
)
_BYTE = re.compile("<0x([0-9A-F]{2})>")


class PieceTables(NamedTuple):
    """What a search must know of the pieces' characters, `(vocab,)` bool each.

    Attributes:
        ends_in_word: whether a piece ends in a letter or digit.
        ends_joined: whether a piece ends in a letter or digit, or with a connector, such as ".".
        continues: whether a piece continues the number or address before it: it begins with a
            letter or digit, or with connectors before one.
        is_connector: whether a piece consists of connectors.
    """

    ends_in_word: np.ndarray
    ends_joined: np.ndarray
    continues: np.ndarray
    is_connector: np.ndarray

    @classmethod
    def of(cls, vocabulary: Vocabulary) -> "PieceTables":
        """Returns the tables of a vocabulary."""
        if vocabulary.word_separators:  # each piece is a word
            return cls(*(np.zeros(vocabulary.vocab_size, bool) for _ in cls._fields))
        texts = [_BYTE.sub(_byte_character, piece) for piece in vocabulary.texts]
        rest = [text.lstrip(CONNECTORS) for text in texts]
        ends_in_word = np.array([_is_word(text[-1:]) for text in texts])
        return cls(
            ends_in_word=ends_in_word,
            ends_joined=ends_in_word | [text.endswith(tuple(CONNECTORS)) for text in texts],
            continues=np.array([_is_word(text[:1]) for text in rest]),
            is_connector=np.array([text != "" and not text.strip(CONNECTORS) for text in texts]),
        )


def _is_word(character: str) -> bool:
    return character != "" and is_word_character(character)


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
