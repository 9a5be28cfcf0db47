"""What touches a word and is no part of it: marks of footnotes, references and trademarks."""

from export.markup.marks.elements import RAISED, is_lowered, is_mark, is_raised
from export.markup.marks.raised import FRACTION_SIGNS, visible
from export.markup.marks.text import split_marks

__all__ = [
    "FRACTION_SIGNS",
    "RAISED",
    "is_lowered",
    "is_mark",
    "is_raised",
    "split_marks",
    "visible",
]
