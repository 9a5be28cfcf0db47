"""Words of a text in any language, for counting and for finding errors."""

import functools
import re
import unicodedata

# Scripts that are written without spaces, each of whose characters counts as a word: Thai, Lao,
# Burmese, Khmer, Japanese, Chinese.
_UNSPACED = (
    "\u0e01-\u0e5b\u0e81-\u0edf\u1000-\u109f\u1780-\u17ff\u3005-\u3007\u3041-\u30ff\u31f0-\u31ff"
    "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\uff66-\uff9f\U00020000-\U0003ffff"
)
_CHARACTER = re.compile(f"[{_UNSPACED}]")
# Accents and vowel signs, which `\w` leaves out: of these planes, all.
_MARKS = "".join(chr(c) for c in range(0x300, 0x1E950) if unicodedata.category(chr(c))[0] == "M")
_LETTERS = rf"[\w{_MARKS}]+"
# Letters and digits, with marks between them as in don't, 1,000 and twenty-one.
_WORD = re.compile(rf"{_LETTERS}(?:['’.,:\-]{_LETTERS})*")


# The same sentence is split for several purposes, one after the other.
@functools.lru_cache(maxsize=32)
def split_words(text: str) -> tuple[str, ...]:
    """Returns the words of a text, without punctuation.

    A word is letters, digits and what stands between two of them; in Chinese, Japanese, Thai, Lao,
    Khmer and Burmese, each character is one.
    """
    return tuple(_WORD.findall(text if text.isascii() else _CHARACTER.sub(r" \g<0> ", text)))


def is_unspaced(word: str) -> bool:
    """Returns whether a word is a character of a script that is written without spaces."""
    return _CHARACTER.match(word) is not None
