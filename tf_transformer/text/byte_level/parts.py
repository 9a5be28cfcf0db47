r"""The parts of a text that byte-level BPE segments one by one.

GPT-2's encoder.py finds them by one pattern:

    's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+

RE2, which TensorFlow has, knows no `(?!\S)`, by which a part of white space ends before the last
character in front of a word. Here a first pattern cuts the text at these places, and the second one
is GPT-2's without that alternative. This module does not import TensorFlow; `part_ops` does the
same in a graph.
"""

import itertools

import re2

# White space of Unicode, which `\s` is for GPT-2's program, and not for RE2.
_SPACE = r"\t\n\v\f\r \x{85}\x{A0}\x{1680}\x{2000}-\x{200A}\x{2028}\x{2029}\x{202F}\x{205F}\x{3000}"
# Of the syntax of RE2. A text is cut between the two groups of the first one.
CUT = f"([{_SPACE}])([{_SPACE}][^{_SPACE}])"
PART = rf"('s|'t|'re|'ve|'m|'ll|'d| ?\pL+| ?\pN+| ?[^{_SPACE}\pL\pN]+|[{_SPACE}]+)"
_CUT, _PART = re2.compile(CUT), re2.compile(PART)


def split_text(text: str) -> list[str]:
    """Returns the parts of a text, in their order; together they are the text."""
    cuts = [0, *(match.end(1) for match in _CUT.finditer(text)), len(text)]
    sections = (text[begin:end] for begin, end in itertools.pairwise(cuts))
    return [part for section in sections for part in _PART.findall(section)]
