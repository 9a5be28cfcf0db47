"""Sentences in capitals: translated in sentence case, and capitalized again.

A model that has not been trained on text in capitals sees it as rare pieces. So sentences IN
CAPITALS, in Title Case, and with WORDS IN CAPITALS among others are translated in sentence case.
"""

from typing import NamedTuple

import tensorflow as tf

from tf_transformer.text.special_ids import UNKNOWN_ID
from tf_transformer.text.tokenizer import Tokenizer

# A sharp s within capitals is a capital.
_NOT_LOWER = r"(?:[^\p{Ll}]|ß)*"
_UPPER_WORD = rf"{_NOT_LOWER}\p{{Lu}}{_NOT_LOWER}"
_LONG_UPPER_WORD = rf"{_NOT_LOWER}\p{{Lu}}{_UPPER_WORD}"
_TITLE_WORD = r"[^\p{L}]*[\p{Lu}\p{Lt}].*"
_LONG_WORD = r"[^\p{L}]*\p{L}{4}.*"
_LONG_TITLE_WORD = r"[^\p{L}]*[\p{Lu}\p{Lt}]\p{L}{3}.*"
# Letters without case in texts that have it.
_ORDINAL_SIGN = "[ªº]"
# Minimum number of words with a capital in a title, and their share of all words.
_SHORTEST_TITLE, _TITLE_SHARE = 4, 0.7
# An unknown piece counts as so many others.
_UNKNOWN_COST = 10


class Capitals(NamedTuple):
    """How sentences are capitalized.

    Attributes:
        is_upper: `(batch,)` bool, all letters are capitals, in two words or more. A single word
            may be an acronym. Where letters have no case, as in Chinese, the other words of a
            sentence are often acronyms and names, so it is neither this nor a title and has no
            spans.
        is_title: `(batch,)` bool, the words start with capitals. Short ones need not, unless a
            period, `?` or `!` ends the sentence: it is rather an ordinary one with names.
        is_every_word: `(batch,)` bool, the short ones of a title, too.
        in_span: bool, ragged `(batch, (words))`, the word is one of several in capitals that
            follow each other, but are not the whole sentence; words are separated by white space.
            Two must be of more than one letter: `A DJ` is none.
    """

    is_upper: tf.Tensor
    is_title: tf.Tensor
    is_every_word: tf.Tensor
    in_span: tf.RaggedTensor

    @property
    def has_span(self) -> tf.Tensor:
        """`(batch,)` bool, whether a word is in a span."""
        return tf.reduce_any(self.in_span, axis=1)


def find_capitals(text: tf.Tensor, is_wanted: tf.Tensor) -> Capitals:
    """Finds how sentences are capitalized.

    Args:
        text: `(batch,)` strings.
        is_wanted: `(batch,)` bool; the capitals of other sentences are not looked at.
    """
    words = tf.strings.split(text)
    is_wanted &= ~tf.strings.regex_full_match(
        tf.strings.regex_replace(text, _ORDINAL_SIGN, ""), r"(?s).*\p{Lo}.*"
    )

    def matches(pattern):
        return words.with_flat_values(tf.strings.regex_full_match(words.flat_values, pattern))

    is_upper, is_long_upper = matches(_UPPER_WORD), matches(_LONG_UPPER_WORD)
    num_upper = _count(is_long_upper)
    has_lower = _count(matches(r".*\p{Ll}.*") & ~is_upper) > 0
    all_upper = is_wanted & ~has_lower & (num_upper >= 2)
    starts_upper, has_letters = matches(_TITLE_WORD), matches(r".*\p{L}.*")
    num_words, num_starts = _count(has_letters), _count(starts_upper)
    num_long, num_long_starts = _count(matches(_LONG_WORD)), _count(matches(_LONG_TITLE_WORD))
    share = tf.cast(num_starts, tf.float32) / tf.cast(tf.maximum(num_words, 1), tf.float32)
    is_title = is_wanted & has_lower & (num_starts >= _SHORTEST_TITLE)
    is_title &= (num_long_starts == num_long) & (share >= _TITLE_SHARE)
    is_title &= 2 * num_upper < num_starts  # not a sentence in capitals with other words in it
    ends_in_stop = tf.strings.regex_full_match(text, r"(?s).*[.!?\x{2026}][^\pL\pN]*")
    is_title &= ~ends_in_stop | (num_starts == num_words)
    is_free = is_wanted & ~all_upper & ~is_title
    in_span = _spans(is_upper, is_long_upper)
    in_span = words.with_flat_values(in_span & tf.gather(is_free, words.value_rowids()))
    return Capitals(all_upper, is_title, is_title & (num_starts == num_words), in_span)


def sentence_case(
    text: tf.Tensor, capitals: Capitals, tokenizer: Tokenizer, is_english: bool | tf.Tensor = False
) -> tf.Tensor:
    """Writes sentences and spans in sentence case.

    A word is written in lower case, with a capital or in capitals, whichever takes the fewest
    pieces: the vocabulary has been learned from text in sentence case, so it has a piece for
    "Monday", but none for "monday". The first of several is taken, and unknown pieces are avoided.

    Args:
        text: `(batch,)` strings.
        capitals: those of the sentences.
        tokenizer: the tokenizer of the model.
        is_english: whether the word "i" is written as "I", for all or `(batch,)` bool.

    Returns:
        `(batch,)` strings; white space within sentences that change may change, too.
    """
    words = tf.strings.split(text)
    whole = capitals.is_upper | capitals.is_title
    changes = tf.gather(whole, words.value_rowids()) | capitals.in_span.flat_values
    indices = tf.where(changes)
    if tf.is_tensor(is_english):
        is_english = tf.gather(is_english, tf.gather_nd(words.value_rowids(), indices))
    usual = _usual_case(tf.gather_nd(words.flat_values, indices), tokenizer, is_english)
    changed = tf.tensor_scatter_nd_update(words.flat_values, indices, usual)
    changed = tf.strings.reduce_join(words.with_flat_values(changed), axis=1, separator=" ")
    starts_upper = tf.strings.regex_full_match(text, rf"(?s){_TITLE_WORD}")
    changed = tf.where(starts_upper, _with_capital(changed), changed)
    return tf.where(whole | capitals.has_span, changed, text)


def restore_capitals(translation: tf.Tensor, capitals: Capitals) -> tf.Tensor:
    """Capitalizes the translations of sentences in capitals and of titles; spans are left.

    Args:
        translation: `(batch,)` strings, the translations of what `sentence_case` returned.
        capitals: those of the sources.
    """
    words = tf.strings.split(translation)
    is_long = tf.strings.regex_full_match(words.flat_values, _LONG_WORD)
    every = tf.gather(capitals.is_every_word, words.value_rowids())
    titled = tf.where(is_long | every, _with_capital(words.flat_values), words.flat_values)
    title = tf.strings.reduce_join(words.with_flat_values(titled), axis=1, separator=" ")
    title = _with_capital(title)
    upper = tf.strings.upper(translation, encoding="utf-8")
    return tf.where(capitals.is_upper, upper, tf.where(capitals.is_title, title, translation))


def _spans(is_upper: tf.RaggedTensor, is_long: tf.RaggedTensor) -> tf.Tensor:
    """Returns the words in a run of words in capitals of which two or more are long ones, flat."""
    rows, upper = is_upper.value_rowids(), is_upper.flat_values
    begins = (rows[1:] != rows[:-1]) | (upper[1:] != upper[:-1])
    runs = tf.pad(tf.cumsum(tf.cast(begins, tf.int32)), [[1, 0]])[: tf.size(rows)]
    num_long = tf.math.bincount(runs, tf.cast(is_long.flat_values, tf.int32))
    return upper & (tf.gather(num_long, runs) >= 2)


def _usual_case(words: tf.Tensor, tokenizer: Tokenizer, is_english) -> tf.Tensor:
    """Returns the form of words that takes the fewest pieces, `(words,)` strings."""
    lower = tf.strings.lower(words, encoding="utf-8")
    forms = [lower, _with_capital(lower), words]
    if is_english is not False:
        english = tf.strings.regex_replace(lower, r"^([^\pL]*)i([^\pL].*)?$", r"\1I\2")
        forms[0] = tf.where(is_english, english, lower)
    costs = []
    for form in forms:
        ids = tokenizer.tokenize(form)
        piece_costs = tf.where(ids.flat_values == UNKNOWN_ID, _UNKNOWN_COST, 1)
        costs.append(tf.reduce_sum(ids.with_flat_values(piece_costs), axis=1))
    return tf.gather(
        tf.stack(forms, axis=1), tf.argmin(tf.stack(costs, axis=1), axis=1), batch_dims=1
    )


def _count(flags: tf.RaggedTensor) -> tf.Tensor:
    return tf.reduce_sum(tf.cast(flags, tf.int32), axis=1)


def _with_capital(text: tf.Tensor) -> tf.Tensor:
    """Writes the first letter of strings as a capital."""
    start = tf.strings.regex_replace(text, r"(?s)^([^\pL]*\pL)?.*$", r"\1")
    rest = tf.strings.substr(text, tf.strings.length(start), tf.strings.length(text))
    return tf.strings.join([tf.strings.upper(start, encoding="utf-8"), rest])
