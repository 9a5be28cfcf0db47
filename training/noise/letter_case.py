"""Texts in upper case and in title case.

The rules are Unicode's for no language in particular: "ß" becomes "SS", and "i" becomes "I" in
Turkish text, too. Scripts without case are unchanged. (TensorFlow's `tf.strings.upper` follows the
locale of the process, so that the noise would depend on an environment variable.)
"""

from collections.abc import Callable

import numpy as np
import tensorflow as tf

from training.noise.words import are_translatable, join, split_first_letters, split_words

# No character beyond has case.
_NUM_CODE_POINTS = 0x20000


def _case_mapping(convert: Callable[[str], str]) -> tuple[np.ndarray, np.ndarray]:
    """Returns the code points that change, increasing, and what they become, in UTF-8."""
    changed = {code: convert(chr(code)) for code in range(_NUM_CODE_POINTS)}
    pairs = [(code, new.encode()) for code, new in changed.items() if new != chr(code)]
    return np.array([code for code, _ in pairs], np.int32), np.array([new for _, new in pairs])


_UPPER = _case_mapping(str.upper)
_TITLE = _case_mapping(str.title)


def upper_case(text: tf.Tensor) -> tf.Tensor:
    """Returns texts `(batch,)` in upper case, except for tags, addresses and the like."""
    return _change_words(text, lambda words: _convert(words, _UPPER))


def title_case(text: tf.Tensor) -> tf.Tensor:
    """Returns texts `(batch,)` with a capital at the beginning of each word.

    Tags, addresses and the like are unchanged, and so are all other letters.
    """

    def capitalize(words):
        parts = split_first_letters(words)
        is_letter = tf.ragged.range(parts.row_lengths()).flat_values == 1
        values = parts.flat_values
        values = tf.where(is_letter, _convert(values, _TITLE), values)
        return join(parts.with_flat_values(values))

    return _change_words(text, capitalize)


def _change_words(text, function):
    words = split_words(text)
    values = words.flat_values
    changed = tf.where(are_translatable(values), function(values), values)
    return join(words.with_flat_values(changed))


def _convert(words: tf.Tensor, mapping: tuple[np.ndarray, np.ndarray]) -> tf.Tensor:
    """Converts each character of words `(words,)`."""
    old, new = mapping
    characters = tf.strings.unicode_decode(words, "UTF-8")
    values = characters.flat_values
    places = tf.minimum(tf.searchsorted(old, values), len(old) - 1)
    unchanged = tf.strings.unicode_encode(values[:, tf.newaxis], "UTF-8")
    converted = tf.where(tf.gather(old, places) == values, tf.gather(new, places), unchanged)
    return join(characters.with_flat_values(converted))
