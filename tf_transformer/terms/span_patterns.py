"""Patterns of addresses and placeholders, of the syntax of RE2 and of `re` with `re.ASCII`.

So graphs and clients without TensorFlow agree about them. Counts are limited, so that `re` takes
linear time. This module imports nothing.
"""

# White space that is not ASCII, and the one that is none of RE2.
_SPACES = "\u000b\u0085\u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000"
# What `spans` marks with, as white space.
_MARKS = r"\x1d-\x1f"
# What ends a URL: quotation marks, dashes and stops that it would not contain unescaped, and the
# blocks of scripts without spaces between words, with their punctuation and full-width signs.
_SIGNS = '<>`"\u00ab\u00bb\u060c\u061b\u061f\u0964\u0965\u2010-\u2027\u2030-\u205e'
_UNSPACED = (
    "\u0e00-\u0fff\u1000-\u109f\u1780-\u17ff\u2e80-\u9fff\ua9e0-\ua9ff\uaa60-\uaa7f"
    "\uf900-\ufaff\ufe30-\ufe4f\uff01-\uff0f\uff1a-\uff20\uff3b-\uff40\uff5b-\uff9f"
    "\U0001b000-\U0001b16f\U00020000-\U0003ffff"
)
_ENDS = rf"\s{_MARKS}{_SPACES}{_SIGNS}{_UNSPACED}()\[\]{{}}"
# Brackets are parts of a URL only in pairs.
_IN_BRACKETS = (
    rf"\((?:[^{_ENDS}]|\([^{_ENDS}]*\))*\)|\[[^{_ENDS}]*\]"
    rf"|\{{\{{ ?[^{_ENDS}]* ?\}}\}}|\{{[^{_ENDS}]*\}}"
)
# Without the punctuation, or the marks of emphasis, after it.
URL = (
    r"(?:(?:[hH][tT][tT][pP][sS]?|[fF][tT][pP])://|[wW][wW][wW]\.)"
    rf"(?:[^{_ENDS}]|{_IN_BRACKETS})*(?:[^{_ENDS}.,;:!?'*_]|{_IN_BRACKETS})"
)
IN_BRACES = (
    rf"\{{\{{[^{{}}\n\r{_MARKS}]{{1,64}}\}}\}}"  # {{name}}
    rf"|\$?\{{[^{{}}\s{_SPACES}{_MARKS}]{{0,64}}\}}"  # {name}, {} and ${name}
)
PLACEHOLDER = (
    rf"{IN_BRACES}|%\([A-Za-z0-9_.]{{1,64}}\)[A-Za-z]"  # %(name)s
    # %s, %1$s, %5.2f
    r"|%(?:[0-9]{1,4}\$)?[-+0#]{0,8}[0-9]{0,8}(?:\.[0-9]{1,8})?[a-zA-Z]\b"
)
