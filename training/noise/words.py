"""The words of a text, and which of them noise must not change.

Text is split by inserting NUL characters, which lines of text never contain.
"""

import tensorflow as tf

_SEPARATOR = "\0"
_SPACES = r"[\s\pZ]+"
# Markup, language tags such as <2de> and >>deu<<, addresses, names of variables.
_UNTRANSLATABLE = r"(?s).*[<>{}@/\\_=#].*"
# A letter and its combining characters and joiners is one symbol, and so is any other character.
_JOINED = r"[\pM\x{200C}\x{200D}]*"
_LETTER = rf"\pL{_JOINED}"


def split_words(text: tf.Tensor) -> tf.RaggedTensor:
    """Splits texts `(batch,)` into words and the white space between them, which join again.

    Returns:
        Ragged `(batch, (segments))` strings; some may be empty.
    """
    return _split(text, f"({_SPACES})", rf"{_SEPARATOR}\1{_SEPARATOR}")


def split_symbols(words: tf.Tensor) -> tf.RaggedTensor:
    """Splits words `(words,)` into characters with their combining characters.

    Returns:
        Ragged `(words, (symbols))` strings.
    """
    symbols = _split(words, rf"((?s:.){_JOINED})", rf"\1{_SEPARATOR}")
    return tf.ragged.boolean_mask(symbols, symbols != "")


def join(parts: tf.RaggedTensor) -> tf.Tensor:
    """Joins the parts of each text, the inverse of the functions that split."""
    return tf.strings.reduce_join(parts, axis=-1)


def are_letters(symbols: tf.Tensor) -> tf.Tensor:
    """Returns which symbols are letters, with or without combining characters."""
    return tf.strings.regex_full_match(symbols, _LETTER)


def are_translatable(words: tf.Tensor) -> tf.Tensor:
    """Returns which words may be changed: not tags, addresses and other names of machines."""
    return ~tf.strings.regex_full_match(words, _UNTRANSLATABLE)


def split_first_letters(words: tf.Tensor) -> tf.RaggedTensor:
    """Splits words into what is before their first letter, the letter, and the rest.

    Before the letter there may be quotation marks, brackets and the like, but no digits.

    Returns:
        Ragged `(words, (1 or 3))` strings; a single one if a word starts otherwise.
    """
    return _split(words, r"^([^\pL\pN]*)(\pL)", rf"\1{_SEPARATOR}\2{_SEPARATOR}")


def _split(text: tf.Tensor, pattern: str, rewrite: str) -> tf.RaggedTensor:
    return tf.strings.split(tf.strings.regex_replace(text, pattern, rewrite), _SEPARATOR)
