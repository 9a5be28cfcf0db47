r"""The parts of a text that byte-level BPE segments one by one.

GPT-2's encoder.py finds them by one pattern:

    's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+

RE2, which TensorFlow has, knows no `(?!\S)`: white space without the last character before a word.
Here a first pattern finds white space with the word behind it, a second one divides what has more
than one character of white space, and the third is GPT-2's without that alternative. This module
does not import TensorFlow; `part_ops` does the same in a graph.
"""

import re2

# White space of Unicode, which `\s` is for GPT-2's program, and not for RE2.
_SPACE = r"\t\n\v\f\r \x{85}\x{A0}\x{1680}\x{2000}-\x{200A}\x{2028}\x{2029}\x{202F}\x{205F}\x{3000}"
# Of the syntax of RE2.
CHUNK = f"[{_SPACE}]*[^{_SPACE}]+|[{_SPACE}]+"
# A chunk's white space without its last character, and the rest.
LONG_SPACE = f"([{_SPACE}]+)([{_SPACE}][^{_SPACE}]+)"
PART = rf"'s|'t|'re|'ve|'m|'ll|'d| ?\pL+| ?\pN+| ?[^{_SPACE}\pL\pN]+|[{_SPACE}]+"
_CHUNK, _LONG_SPACE, _PART = map(re2.compile, (CHUNK, LONG_SPACE, PART))


def split_text(text: str) -> list[str]:
    """Returns the parts of a text, in their order; together they are the text."""
    parts = []
    for chunk in _CHUNK.findall(text):
        match = _LONG_SPACE.fullmatch(chunk)
        if match:
            parts.append(match[1])
            chunk = match[2]
        parts += _PART.findall(chunk)
    return parts
