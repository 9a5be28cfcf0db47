"""Which inline elements are marks: they touch a word, or stand beside it, and are no part of it.

Marks are numbers and signs of footnotes, references, links to them and back, and trademarks. HTML
has no element for them, so they are recognized by what they are made of, what their attributes say,
and the text around them. What could as well be an exponent counts as a mark after a number, a sign
or a longer word, where both stand behind what they belong to; after a unit or a variable, as in
m<sup>2</sup>, it is a part of the word.
"""

import re
import unicodedata
from collections.abc import Sequence

from export.markup.parsing.elements import LINK_TARGETS
from export.markup.parsing.tokens import Kind, Token

RAISED, LOWERED = frozenset(["sup", "superscript"]), frozenset(["sub", "subscript"])
_LINKS = frozenset(["a", "link", "ref", "ulink", "xref"])
# What the attributes of marks say of them in HTML, EPUB, DPUB-ARIA and common converters.
_KIND_NAMES = ("class", "role", "epub:type", "type", "rel", "ref-type")
_KIND = re.compile(
    r"(?i)(?:foot|end|side)-?_?note|note-?_?(?:ref|mark|link|number)|reference|\bcite|citation"
    r"|\b(?:fn|fnref|fn-ref|verse|versenum|v-num)\b"
)
_LONGEST = 60
_SYMBOL = r"[*∗⁎＊†‡§¶‖#^↑↩↵®™℠※\ufe0e\ufe0f]"
_NUMBER = r"[0-9]{1,3}[a-z]?"
_SIGNS = re.compile(
    rf"(?:{_SYMBOL}|\s)+|TM|SM|MC|MR"
    rf"|(?:{_NUMBER}|[a-z])(?:,\s*(?:{_NUMBER}|[a-z]))*,\s*{_SYMBOL}+"  # of an author
    rf"|:\s*[0-9]+(?:[–-][0-9]+)?"  # a page, behind the number of its book
)
_NUMBERS = re.compile(rf"{_NUMBER}(?:\s*[,;–—-]\s*{_NUMBER})*|\([0-9]{{1,3}}\)|[0-9]{{1,3}}\)")
_LETTERS = re.compile(r"[a-zα-ω]{1,2}(?:\s*[,;]\s*[a-zα-ω]{1,2})*|[ivxIVX]{1,5}|[A-Z]")
_BRACKETED = re.compile(r"(?:\s*\[[^\[\]]+\][,;]?)+\s*")
_IN_PARENTHESES = re.compile(r"\((?:[0-9]{1,3}|[a-z])\)")

# A bracket with a list of links, and the character before it.
_OPEN_BRACKET = re.compile(r"(.?)\[[0-9a-z,;\s–—-]*$", re.DOTALL)
_WORD_BEFORE = re.compile(r"[^\W\d_]+$")
# A number raised after these is an exponent. After one letter it always is.
_UNITS = frozenset([
    *("km", "hm", "dm", "cm", "mm", "um", "µm", "μm", "nm", "ft", "yd", "mi", "feet", "foot"),
    *("inch", "inches", "yard", "yards", "mile", "miles", "км", "дм", "см", "мм", "ha", "ms", "ns"),
    *("sec", "min", "kg", "mg", "mol", "pa", "hz", "kv", "kw", "mv", "ma", "ev", "cd", "lm", "lx"),
    *("wb", "sr", "rad", "deg", "mc", "dx", "dy", "dz", "dt", "xy", "ln", "lg", "tg", "log", "sin"),
    *("cos", "tan", "cot", "csc", "sinh", "cosh", "tanh", "exp", "det", "lim", "max", "sup", "inf"),
])  # fmt: skip
_INCHES = re.compile(r"[0-9]\s*in$")
_ROMAN = re.compile(r"[IVXLCDM]+")
_LETTERED_WORD = 3  # letters of a word that a raised letter can mark
# What a raised letter always marks; after "N." it can be the end of an abbreviation.
_LETTERED = re.compile(r"[0-9][.,][0-9]+$|[)\]%;:!?…”’»]$|\w{4}[.,]$")
# A raised number before these is that of an isotope; at the start of a sentence, where it can be
# that of a verse, only before those that are no words such as "He" and "In".
_ELEMENT = re.compile(r"[A-Z][a-z]?(?![^\W_])")
_SURE_ELEMENT = re.compile(
    r"(?:C|N|O|H|F|P|S|K|B|U|Li|Na|Sr|Cs|Co|Th|Ra|Rn|Fe|Tc|Pu|Xe|Kr)(?![^\W_])"
)
FRACTION_SIGNS = ("/", "⁄")
_STARTS_SENTENCE = re.compile(r"[.!?…:;。！？][\s\"'”’»)\]]*$")


def is_raised(token: Token) -> bool:
    """Returns whether a start tag raises its text; `hi` is an element of TEI."""
    return _local(token) in RAISED or (_local(token) == "hi" and "sup" in _value(token, "rend"))


def is_lowered(token: Token) -> bool:
    """Returns whether a start tag lowers its text."""
    return _local(token) in LOWERED or (_local(token) == "hi" and "sub" in _value(token, "rend"))


def is_mark(element: Sequence[Token], before: str, after: str) -> bool:
    """Returns whether an inline element is a mark.

    Args:
        element: its tokens, from the start tag to the end tag.
        before: the text before it, some words of it at least.
        after: the text after it.
    """
    text = "".join(token.text for token in element).strip()
    starts = [token for token in element if token.kind is Kind.START]
    if not text or len(text) > _LONGEST or any(x.kind in (Kind.ATOM, Kind.EMPTY) for x in element):
        return False
    is_sign = _SIGNS.fullmatch(text) is not None
    is_bracketed = _BRACKETED.fullmatch(text) is not None
    is_number = _NUMBERS.fullmatch(text) is not None
    is_short = is_number or bool(_LETTERS.fullmatch(text) or _IN_PARENTHESES.fullmatch(text))
    if not (is_sign or is_bracketed or is_short):
        return False
    is_called = any(_is_called_mark(token) for token in starts)
    is_linked = any(_is_link(token) for token in starts)
    if any(map(is_raised, starts)):
        if is_sign or is_bracketed or is_linked or is_called:
            return True
        return _marks_by_number(before, after) if is_number else _marks_by_letter(text, before)
    if any(map(is_lowered, starts)):
        return is_linked or is_called
    if is_sign:
        return is_linked or is_called
    # Beside white space, it can be a part of the sentence: "see [1]", "in chapter 2".
    bracket = _OPEN_BRACKET.search(before)
    if bracket is not None:
        return is_linked and is_short and not (bracket[1] or " ").isspace()
    if not before or before[-1].isspace():
        return False
    return is_called or (
        is_linked
        and (is_bracketed or (is_number and _is_fragment(starts) and not _is_word(before)))
    )


def _local(token):
    return token.name.rpartition(":")[2]


def _value(token, name) -> str:
    return (token.attributes or {}).get(name) or ""


def _is_link(token):
    return _local(token) in _LINKS and any(_value(token, name) for name in LINK_TARGETS)


def _is_fragment(starts):
    return any("#" in _value(token, name) for token in starts for name in LINK_TARGETS)


def _is_called_mark(token):
    return any(_KIND.search(_value(token, name)) for name in _KIND_NAMES)


def _is_word(before):
    """Returns whether a number that follows, such as a link, can be the end of a word."""
    return before[-1].isdigit() or before[-1] in "-‐‑/_.,:$€£¥"


def _marks_by_number(before: str, after: str) -> bool:
    """Returns whether a raised number is a mark, by the text around it."""
    if before and not before[-1].isspace() and before[-1] not in "([{":
        word = _WORD_BEFORE.search(before)
        if word is None or unicodedata.category(before[-1]) == "Lo":
            return True
        return not (len(word[0]) == 1 or word[0].lower() in _UNITS or _INCHES.search(before))
    if after.startswith(FRACTION_SIGNS):
        return False
    if not after or not after[0].isalnum():
        return True
    starts = not before.strip() or _STARTS_SENTENCE.search(before) is not None
    return (_SURE_ELEMENT if starts else _ELEMENT).match(after) is None


def _marks_by_letter(text: str, before: str) -> bool:
    """Returns whether a raised letter is a mark, not the end of an ordinal number or a power."""
    if _LETTERED.search(before):
        return True
    word = _WORD_BEFORE.search(before)
    if word is None or _LETTERS.fullmatch(text) is None or (len(text) > 1 and "," not in text):
        return False
    is_long = len(word[0]) > _LETTERED_WORD and word[0].lower() not in _UNITS
    return is_long and _ROMAN.fullmatch(word[0]) is None
