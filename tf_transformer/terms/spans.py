"""Protected spans of a source: what a translation copies unchanged, as part of a graph."""

import tensorflow as tf

from tf_transformer.terms.entries import valid_text
from tf_transformer.terms.limits import SPAN_BITS
from tf_transformer.terms.span_patterns import IN_BRACES, PLACEHOLDER, URL
from tf_transformer.text.word_characters import LOCALIZED_NUMBER

# Around spans that have been found, before and after those of the current kind; spaces in a source.
_FOUND, _BEGIN, _END = "\x1f", "\x1e", "\x1d"
_LOCAL_PART = r"[\p{Latin}\p{Greek}\p{Cyrillic}0-9._%+-]+"
# Of the syntax of RE2, one for each kind of `SPAN_BITS`.
_PATTERNS = {
    "urls": URL,
    "emails": rf"{_LOCAL_PART}(?:'{_LOCAL_PART})*"
    r"@[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)*\.[A-Za-z]{2,}",
    "placeholders": PLACEHOLDER,
    # With separators between digits, as in 1,000.5 and 12:30.
    "numbers": r"\b[0-9]+(?:[.,:/][0-9]+)*\b",
}
_ADDRESSES = ("urls", "emails")  # depend on no language
_LETTER = r"\p{Latin}\p{Greek}\p{Cyrillic}\pM_"
_WORD = rf"[{_LETTER}\pN]*[{_LETTER}][{_LETTER}\pN]*"
# What is no such span, although a part of it looks like one: a word with digits, as in v1.2.
_SKIPPED = {"numbers": rf"|{_WORD}\pN(?:[.,:/][0-9]+)+|{_WORD}"}


def is_translatable(text: tf.Tensor, protect: tf.Tensor | None = None) -> tf.Tensor:
    """Returns whether texts depend on the language, bool: by letters, or by a number such as 3.5.

    Those of URLs, e-mail addresses and other protected spans do not count.

    Args:
        text: `(rows,)` strings.
        protect: as for `find_spans`; None means 0.
    """
    addresses = sum(SPAN_BITS[kind] for kind in _ADDRESSES)
    if protect is None:
        parts = _parts(text, tf.fill(tf.shape(text), addresses), _ADDRESSES)
    else:
        parts = _parts(text, protect | addresses)
    is_rest = tf.ragged.range(parts.row_lengths()) % 2 == 0
    rest = tf.strings.reduce_join(tf.ragged.boolean_mask(parts, is_rest), axis=1, separator=_FOUND)
    return tf.strings.regex_full_match(rest, rf"(?s).*(?:\pL|{LOCALIZED_NUMBER}).*")


def has_lettered_span(text: tf.Tensor, protect: tf.Tensor) -> tf.Tensor:
    """Returns whether texts have a protected span with letters, `(rows,)` bool.

    Args:
        text: as for `find_spans`.
        protect: as for `find_spans`.
    """
    spans = find_spans(text, protect)
    has_letter = tf.strings.regex_full_match(spans.flat_values, r"(?s).*\pL.*")
    return tf.reduce_any(spans.with_flat_values(has_letter), axis=1)


def find_spans(text: tf.Tensor, protect: tf.Tensor) -> tf.RaggedTensor:
    """Finds the spans that are protected.

    Args:
        text: `(rows,)` strings, the sources.
        protect: `(rows,)` int32, the sum of the `SPAN_BITS` of the kinds to protect; other bits
            mean nothing.

    Returns:
        `(rows, (spans))` strings, as often as they occur, in the order of the text.
    """
    parts = _parts(text, protect)
    is_span = tf.ragged.range(parts.row_lengths()) % 2 == 1
    return tf.ragged.boolean_mask(parts, is_span)


def _parts(text, protect, kinds=tuple(SPAN_BITS)):
    """Returns text, span, text, span, ..., text of each row, `(rows, (parts))` strings."""
    text = tf.strings.regex_replace(valid_text(text), f"[{_FOUND}{_BEGIN}{_END}]", " ")
    for kind in kinds:
        marked = _marked(text, kind)
        if kind in _ADDRESSES:
            is_apart = tf.bitwise.bitwise_and(protect, SPAN_BITS["placeholders"]) != 0
            marked = tf.where(is_apart, _marked(text, kind, f"|{IN_BRACES}"), marked)
        text = tf.where(tf.bitwise.bitwise_and(protect, SPAN_BITS[kind]) != 0, marked, text)
    return tf.strings.split(text, _FOUND)


def _marked(text, kind, skipped=""):
    """Marks the spans of a kind, but not within what matches the pattern of alternatives."""
    # Of the two groups, one is empty: what has been found stays, followed by an empty span.
    kept = f"{_FOUND}[^{_FOUND}]*{_FOUND}{_SKIPPED.get(kind, '')}{skipped}"
    pattern = f"({kept})|({_PATTERNS[kind]})"
    marked = tf.strings.regex_replace(text, pattern, rf"\1{_BEGIN}\2{_END}")
    marked = tf.strings.regex_replace(marked, _BEGIN + _END, "")
    return tf.strings.regex_replace(marked, f"[{_BEGIN}{_END}]", _FOUND)
