"""What touches a word and is no part of it: marks of footnotes, references and trademarks."""

from export.markup.marks.elements import (
    PAGE_BREAK,
    RAISED,
    is_counter,
    is_lowered,
    is_page_break,
    is_raised,
)
from export.markup.marks.places import (
    MarkSearch,
    find_marks,
    text_after,
)
from export.markup.marks.raised import FRACTION_SIGNS, is_bracketed, is_reference, visible
from export.markup.marks.text import split_marks

__all__ = [
    "FRACTION_SIGNS",
    "PAGE_BREAK",
    "RAISED",
    "MarkSearch",
    "find_marks",
    "is_bracketed",
    "is_counter",
    "is_lowered",
    "is_page_break",
    "is_raised",
    "is_reference",
    "split_marks",
    "text_after",
    "visible",
]
