"""Typing errors: letters that are exchanged, left out, doubled, or replaced by their neighbour."""

import itertools

import numpy as np
import tensorflow as tf

from training.noise.draws import integers, part_keys, uniform
from training.noise.words import (
    are_letters,
    are_translatable,
    join,
    split_symbols,
    split_words,
)

_SWAP, _DROP, _DOUBLE, _NEIGHBOUR = range(4)
# Rows of the usual keyboards for Latin, Cyrillic and Greek letters.
_KEYBOARDS = (
    *("qwertyuiop", "asdfghjkl", "zxcvbnm"),
    *("йцукенгшщзхъ", "фывапролджэ", "ячсмитьбю"),
    *("ςερτυθιοπ", "ασδφγηξκλ", "ζχψωβνμ"),
)
# ASCII words with digits are names: "B2", "4711".
_NAME_WITH_DIGITS = r"[!-~]*[0-9][!-~]*"


def _neighbours() -> np.ndarray:
    """Returns the code points left and right of each one on a keyboard, `(n, 2)`; 0 for others."""
    rows = [*_KEYBOARDS, *map(str.upper, _KEYBOARDS)]
    table = np.zeros((max(map(ord, "".join(rows))) + 1, 2), np.int32)
    for row in rows:
        for left, right in itertools.pairwise(row):
            table[ord(left), 1] = ord(right)
            table[ord(right), 0] = ord(left)
    return np.where(table == 0, table[:, ::-1], table)  # at the end of a row


_NEIGHBOURS = _neighbours()


def add_typos(text: tf.Tensor, keys: tf.Tensor, rate: float) -> tf.Tensor:
    """Makes typing errors in the words of texts.

    One of four errors, all equally likely: a letter changes places with the next one, is missing,
    is typed twice, or is replaced by a neighbour on the keyboard. Where an error is not possible
    (a last letter has no next one, a Chinese one no neighbour), the letter is missing, or typed
    twice if it is a word's only one. No word is missing as a whole. A letter includes its combining
    characters.

    Args:
        text: `(batch,)` strings.
        keys: key of each text, see `pair_keys`.
        rate: probability of an error at each letter; tags, addresses and names with digits have
            none.

    Returns:
        `(batch,)` strings.
    """
    words = split_words(text)
    values, rows = words.flat_values, words.value_rowids()
    may_change = are_translatable(values) & ~tf.strings.regex_full_match(values, _NAME_WITH_DIGITS)
    word_keys = part_keys(tf.gather(keys, rows), tf.ragged.range(words.row_lengths()).flat_values)
    # Only words with an error are split into letters, which takes longer than to draw the errors.
    lengths = tf.where(may_change, tf.strings.length(values, "UTF8_CHAR"), 0)
    letters = tf.ragged.range(lengths)
    draws = uniform(
        part_keys(tf.gather(word_keys, letters.value_rowids()), letters.flat_values), "typo"
    )
    hits = tf.cast(draws < rate, tf.int32)
    indices = tf.where(tf.math.unsorted_segment_sum(hits, letters.value_rowids(), tf.size(values)))
    word_keys = tf.gather_nd(word_keys, indices)
    correct = tf.gather_nd(values, indices)
    changed = _with_errors(correct, word_keys, rate)
    changed = tf.where(changed == "", correct, changed)
    return join(words.with_flat_values(tf.tensor_scatter_nd_update(values, indices, changed)))


def _with_errors(words: tf.Tensor, keys: tf.Tensor, rate: float) -> tf.Tensor:
    """Returns words `(words,)` with errors; `keys` are the words' keys."""
    symbols = split_symbols(words)
    values, words = symbols.flat_values, symbols.value_rowids()
    places = tf.ragged.range(symbols.row_lengths()).flat_values
    keys = part_keys(tf.gather(keys, words), places)
    is_letter = are_letters(values)
    error = tf.where(
        is_letter & (uniform(keys, "typo") < rate), integers(keys, "kind of typo", 4), -1
    )
    same_word = tf.concat([words[1:] == words[:-1], tf.zeros([1], tf.bool)], 0)[: tf.size(words)]
    is_swapped = (error == _SWAP) & same_word & tf.roll(is_letter, -1, 0)
    is_swapped &= values != tf.roll(values, -1, 0)
    neighbours, has_neighbour = _neighbours_of(values, keys)
    is_replaced = (error == _NEIGHBOUR) & has_neighbour
    is_alone = tf.gather(tf.math.segment_sum(tf.cast(is_letter, tf.int32), words), words) == 1
    is_doubled = (error >= 0) & ~is_swapped & ~is_replaced & ((error == _DOUBLE) | is_alone)
    is_dropped = (error >= 0) & ~is_swapped & ~is_replaced & ~is_doubled
    values = tf.where(is_replaced, neighbours, values)
    values = tf.where(is_doubled, tf.strings.join([values, values]), values)
    values = tf.where(is_dropped, "", values)
    # A swapped symbol comes after the next one, and before the one after that.
    order = tf.argsort(2 * tf.range(tf.size(values)) + 3 * tf.cast(is_swapped, tf.int32))
    return join(symbols.with_flat_values(tf.gather(values, order)))


def _neighbours_of(symbols: tf.Tensor, keys: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns a neighbour of each symbol on the keyboard, and whether there is one."""
    code_points = tf.strings.unicode_decode(symbols, "UTF-8")
    first = code_points[:, :1].to_tensor(0, shape=(None, 1))[:, 0]
    is_on_keyboard = (code_points.row_lengths() == 1) & (first < len(_NEIGHBOURS))
    sides = integers(keys, "neighbour", 2)
    both = tf.gather(_NEIGHBOURS, tf.where(is_on_keyboard, first, 0))
    found = tf.gather(both, sides, batch_dims=1)
    return tf.strings.unicode_encode(found[:, tf.newaxis], "UTF-8"), found > 0
