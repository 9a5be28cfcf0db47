"""Sentences without the punctuation at their end."""

import tensorflow as tf

# The characters of each class, as in English, Chinese, Arabic, Hindi, Armenian, Ethiopic, Greek.
_STOPS = r".\x{3002}\x{FF0E}\x{FF61}\x{6D4}\x{964}\x{965}\x{589}\x{1362}"
_QUESTIONS = r"?\x{FF1F}\x{61F}\x{37E}"
_EXCLAMATIONS = r"!\x{FF01}"
_ELLIPSIS = r"\x{2026}"
_SPACES = r"[\s\pZ]*"
_CLASSES = (
    f"[{_STOPS}]",
    rf"(?:[{_STOPS}]{{2,}}|[{_ELLIPSIS}]+)",
    f"[{_QUESTIONS}]+",
    f"[{_EXCLAMATIONS}]+",
)
_ENDS = _STOPS + _QUESTIONS + _EXCLAMATIONS + _ELLIPSIS
# What remains has a letter or a digit, and ends with none of these characters.
_REST = rf"(?s).*[\pL\pN](?:.*[^{_ENDS}\s\pZ])?"


def without_end(source: tf.Tensor, target: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Removes the punctuation at the end of pairs, if both sides end with the same class of it.

    The classes are a full stop, an ellipsis, question marks and exclamation marks, each in any
    script. Sentences that end with a mixture of classes or with a quotation mark are unchanged.

    Args:
        source: `(batch,)` strings.
        target: `(batch,)` strings.

    Returns:
        The new source and target.
    """
    for characters in _CLASSES:
        ending = f"{_SPACES}{characters}{_SPACES}"
        pattern = _REST + ending
        ends = [tf.strings.regex_full_match(side, pattern) for side in (source, target)]
        source, target = (
            tf.where(ends[0] & ends[1], tf.strings.regex_replace(side, f"{ending}$", ""), side)
            for side in (source, target)
        )
    return source, target
