"""Patterns of addresses and placeholders, of the syntax of RE2 and of `re` with `re.ASCII`.

So graphs and clients without TensorFlow agree about them. This module imports nothing.
"""

# White space that is not ASCII, and the one that is none of RE2.
_SPACES = "\u000b\u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000"
_QUOTATION_MARKS = '<>`"\u00ab\u00bb\u2018-\u201f\u2026'
_WIDE_PUNCTUATION = "\u3001-\u303f\uff01-\uff0f\uff1a-\uff20\uff3b-\uff40\uff5b-\uff65"
# Counts are limited, so that `re` takes linear time.
PLACEHOLDER = "|".join(
    (
        r"\{\{[^{}\n\r\x1d-\x1f]{1,64}\}\}",  # {{name}}
        rf"\$?\{{[^{{}}\s{_SPACES}\x1d-\x1f]{{0,64}}\}}",  # {name}, {} and ${name}
        r"%\([A-Za-z0-9_.]{1,64}\)[A-Za-z]",  # %(name)s
        r"%(?:[0-9]{1,4}\$)?[-+0#]{0,8}[0-9]{0,8}(?:\.[0-9]{1,8})?[a-zA-Z]\b",  # %s, %1$s, %5.2f
    )
)


def url_pattern(unspaced: str) -> str:
    """Returns a pattern of URLs, without the punctuation after them; brackets only in pairs.

    White space, quotation marks, and letters and punctuation of scripts without spaces between
    words end a URL, as do the characters by which `spans` marks what it has found.

    Args:
        unspaced: the letters of these scripts, for a character class.
    """
    ends = rf"\s\x1d-\x1f{_SPACES}{_QUOTATION_MARKS}{_WIDE_PUNCTUATION}{unspaced}()\[\]{{}}"
    in_brackets = rf"\([^{ends}]*\)|\[[^{ends}]*\]|\{{[^{ends}]*\}}"
    return (
        rf"(?i:(?:https?|ftp)://|www\.)(?:[^{ends}]|{in_brackets})*"
        rf"(?:[^{ends}.,;:!?']|{in_brackets})"
    )
