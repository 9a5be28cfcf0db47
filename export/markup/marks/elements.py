"""Which inline elements are marks: they touch a word, or stand beside it, and are no part of it.

Marks are numbers, letters and signs of footnotes, references, links to them and back, and
trademarks. HTML has no element for them, so they are recognized by what they are made of, what
their attributes say, and the text around them.
"""

import re
from collections.abc import Sequence

from export.markup.marks.raised import (
    OPENING,
    is_bracketed,
    is_reference,
    is_sign,
    marks_by_raising,
    starts_sentence,
    visible,
)
from export.markup.parsing.elements import LINK_TARGETS
from export.markup.parsing.tokens import Kind, Token

RAISED, LOWERED = frozenset(["sup", "superscript"]), frozenset(["sub", "subscript"])
NOTE_SIGNS = "*∗⁎＊†‡✝✞⁑"

_LINKS = frozenset(["a", "link", "ref", "ulink", "xref"])
# What the attributes of marks say of them in HTML, EPUB, DPUB-ARIA and common converters.
_KIND_NAMES = ("class", "role", "epub:type", "type", "rel", "ref-type")
_KIND = re.compile(
    r"(?i)(?:foot|end|side)-?_?note|note-?_?(?:ref|mark|link|number)|reference|\bcite|citation"
    r"|(?:\b|_)(?:fn|fnref|fn-ref|verse|versenum|v-num|bibr|aff|corresp|note|tooltip"
    r"|margin-toggle|refs?|appel)(?:\b|_)"
    r"|fu(?:ss|ß)note"
)
_BACKLINK = re.compile(r"(?i)\bdoc-backlink\b|\bmw-cite-backlink\b")
_BACKLINK_CLASS = re.compile(r"(?i)back-?_?link|back-?_?ref")
_REFERENCE = re.compile(r"(?i)\b(?:doc-)?noteref\b|\bfootnote-?ref|\bfnref\b")
_PAGE_BREAK = re.compile(
    r"(?i)(?:^|\s)(?:doc-)?(?:(?:page|line)-?_?(?:num(?:ber)?|no)s?|page-?break)(?:\s|$)"
)
_PAGE_NUMBER = re.compile(r"(?i)\[?(?:[a-z]{1,4}\.?\s?)?[0-9ivxlc]{1,6}\]?")
# The name of the token of a page break, which does not end the word before it.
PAGE_BREAK = "page break"
# Targets of links to notes and back in common converters, such as #fn1, #cite_note-3 and #_ftnref2.
_NOTE_TARGET = re.compile(
    r"(?i)(?:#|^[^#/.]*)(?:\S*(?:note|cite|ftn|edn|fnref|bibr)|[a-z]{1,3}[-_:.]?[0-9]+$|[0-9]+$)"
)
_RAISED_CLASS = re.compile(r"(?i)(?:^|[\s_-])(?:sups?|super|superscript|exposant)(?:$|[\s_-])")
_RAISED_STYLE = re.compile(
    r"(?i)vertical-align\s*:\s*(?:super|text-top|\+?[0-9.]*[1-9])|(?<![-\w])top\s*:\s*-"
)
_SMALL_STYLE = re.compile(
    r"(?i)font-size\s*:\s*(?:[1-7]?[0-9](?:\.[0-9]+)?%|0?\.[0-7][0-9]*r?em|(?:xx?-)?small)"
)
_LOWERED_STYLE = re.compile(r"(?i)vertical-align\s*:\s*(?:sub|-)")
# Numbers of unread messages and the like.
_COUNTER = re.compile(r"(?i)(?:^|[\s_-])(?:badge|bubble|count(?:er)?|pill)(?:$|[\s_-])")
_COUNT = re.compile(r"(?i)\(?[0-9]{1,4}(?:[.,][0-9]{1,3})*[km]?\+?\)?")
_LONGEST, _LONGEST_LIST = 60, 400
_NUMBER = re.compile(r"\(?[0-9]{1,4}[a-z]?(?:\s*[.,;–—-]\s*[0-9]{1,4}[a-z]?)*\)?")
_LINKED_NUMBER = re.compile(r"[\[(]?[0-9]{1,4}(?:\.[0-9]{1,3}){0,3}[a-z]?[\])]?")
_NUMBER_IN_BRACKETS = re.compile(r"\[(?:[^\W\d_]{1,4}\.?\s)?[0-9]{1,3}[a-z]?[^\[\]]{0,12}\]")
# A bracket with a list of links, and the character before it.
_OPEN_BRACKET = re.compile(r"(.?)\[[0-9a-z,;\s–—-]*$", re.DOTALL)
_CITATION = re.compile(r"(?i)\bcite|citation")
_WORDS = re.compile(r"[^\W\d_ivxIVX]{2}")
_WORD_OR_NUMBER = re.compile(r"(?:[^\W\d_]{3}|[0-9])$")
_IN_PARENTHESES = re.compile(r"\([^()]+\)")
# As behind the number of a verse.
_FIRST_LETTERS = re.compile(r"[\"'“„«‘]*([^\W\d_a-z])[^\W\d_A-Z]")
_HALF_OF_YEAR = re.compile(r"(?:^|\s)[0-9]{2}$")
_SIGNIFICANCE = re.compile(r"\s*[pP]\s?[<>=≤≥]")  # as in "* p < 0.05"
_NEXT_WORD = re.compile(r"[\s.:)]*[\"'“„«‘(]*([\w$£€¥])")


def is_raised(token: Token) -> bool:
    """Returns whether a start tag raises its text; `hi` is an element of TEI."""
    is_named = _RAISED_CLASS.search(_value(token, "class")) is not None
    is_named = is_named or (_local(token) == "hi" and "sup" in _value(token, "rend"))
    return _local(token) in RAISED or is_named or bool(_RAISED_STYLE.search(_value(token, "style")))


def is_lowered(token: Token) -> bool:
    """Returns whether a start tag lowers its text."""
    is_named = _local(token) == "hi" and "sub" in _value(token, "rend")
    return (
        _local(token) in LOWERED or is_named or bool(_LOWERED_STYLE.search(_value(token, "style")))
    )


def is_counter(token: Token) -> bool:
    """Returns whether a start tag is that of a badge or a counter."""
    return _COUNTER.search(_value(token, "class")) is not None


def is_mark(element: Sequence[Token], before: str, after: str) -> bool:
    """Returns whether an inline element is a mark.

    Args:
        element: its tokens, from the start tag to the end tag.
        before: the text before it without marks, some words of it at least.
        after: the text after it.
    """
    text = visible("".join(token.text for token in element)).strip()
    starts = _tags_around_all(element)
    if not text or any(x.kind in (Kind.ATOM, Kind.EMPTY) for x in element):
        return False
    if len(text) > _LONGEST and not (len(text) < _LONGEST_LIST and is_reference(text)):
        return False
    is_pointing = any(map(_is_called_mark, starts)) or any(map(_is_link, starts))
    if _matches(_BACKLINK, starts):
        return True
    if is_reference(text) and (_matches(_BACKLINK_CLASS, starts) or _matches(_REFERENCE, starts)):
        return True
    if _PAGE_NUMBER.fullmatch(text) and _matches(_PAGE_BREAK, starts):
        return not (before[-1:].isspace() and after[:1].isspace() and not is_bracketed(text))
    if _COUNT.fullmatch(text) and any(map(is_counter, starts)):
        return before[-1:].isalnum()
    if any(map(is_raised, starts)):
        return (is_pointing and is_reference(text)) or marks_by_raising(text, before, after)
    if not is_reference(text):
        is_citation = _IN_PARENTHESES.fullmatch(text) is not None and _matches(_CITATION, starts)
        return is_citation and _touches(before)
    if any(map(is_lowered, starts)):
        has_space = any(map(str.isspace, text)) and _touches(before)
        if is_pointing or has_space or (text.isdecimal() and before[-1:].isdecimal()):
            return True
        # Shorter words are symbols: x* and a[1] have an index.
        is_no_index = is_bracketed(text) or set(text) <= set(NOTE_SIGNS)
        return is_no_index and _WORD_OR_NUMBER.search(before) is not None
    if any(map(_is_small, starts)) and _touches(before) and text.isdecimal():
        return marks_by_raising(text, before, after)
    if is_sign(text):
        return is_pointing or (set(text) <= set(NOTE_SIGNS) and stands_as_mark(before, after))
    return _marks_beside_words(text, starts, before, after)


def is_linked_number(element: Sequence[Token]) -> bool:
    """Returns whether an inline element is a link whose text is a number, and is not raised."""
    if not _is_link(element[0]) or len(element) > 3:
        return False
    text = visible("".join(token.text for token in element)).strip()
    return _LINKED_NUMBER.fullmatch(text) is not None


def is_page_break(element: Sequence[Token]) -> bool:
    """Returns whether a mark is the number of a page or a line."""
    return _matches(_PAGE_BREAK, _tags_around_all(element))


def stands_as_mark(before: str, after: str) -> bool:
    """Returns whether a sign between these texts is behind a word, or before a sentence."""
    if not any(map(str.isalnum, before)):
        is_note = _SIGNIFICANCE.match(after) is not None
        return not before.strip() and (is_note or begins_sentence(after))
    return _touches(before) and not (after and after[0].isalnum())


def _is_capitalized(text) -> bool:
    """Returns whether a text begins with a capital, which scripts without case do not have."""
    found = _FIRST_LETTERS.match(text)
    return found is not None and found[1].isupper()


def begins_sentence(text) -> bool:
    """Returns whether a text, after space or the point of a number, is that of a sentence."""
    found = _NEXT_WORD.match(text)
    return found is not None and not found[1].islower()


def _marks_beside_words(text, starts, before, after) -> bool:
    """Returns whether a reference that is not raised is a mark, by its links and the text."""
    is_linked = any(map(_is_link, starts))
    is_called = any(map(_is_called_mark, starts)) and _WORDS.search(text) is None
    # Beside white space, it can be a part of the sentence: "see [1]", "in chapter 2".
    bracket = _OPEN_BRACKET.search(before)
    if bracket is not None:
        return is_linked and not is_bracketed(text) and not (bracket[1] or " ").isspace()
    if not any(map(str.isalnum, before)):
        if text.isdecimal() and not before and _is_capitalized(after):
            return True
        leads = begins_sentence(after) or (is_called and not before)
        return leads and (is_called or (is_linked and _is_fragment(starts)))
    if text.isdecimal() and starts_sentence(before) and _is_capitalized(after):
        return True
    if not _touches(before):
        return False
    if is_called or _NUMBER_IN_BRACKETS.fullmatch(text):
        return True
    if not is_linked or is_bracketed(text):
        return is_linked
    points = any(_NOTE_TARGET.search(target) for target in _targets(starts))
    is_apart = _is_fragment(starts) and not _is_word(before)
    is_half = len(text) == 2 and _HALF_OF_YEAR.search(before) is not None
    is_apart = is_apart or (before[-1].isdecimal() and not is_half)
    return _NUMBER.fullmatch(text) is not None and (points or is_apart)


def _tags_around_all(element) -> list[Token]:
    """Returns the start tags of the elements that contain all text of an element."""
    lengths = [len(visible(token.text).strip()) for token in element]
    found, opened, length, total = [], [], 0, sum(lengths)
    for token, own in zip(element, lengths, strict=True):
        length += own
        if token.kind is Kind.START:
            opened.append((token, length))
        elif token.kind is Kind.END:
            start, before = opened.pop()
            if before == 0 and length == total:
                found.append(start)
    return found


def _local(token):
    return token.name.rpartition(":")[2]


def _value(token, name) -> str:
    return (token.attributes or {}).get(name) or ""


def _targets(starts):
    return [_value(token, name) for token in starts for name in LINK_TARGETS]


def _is_link(token):
    return _local(token) in _LINKS and any(_targets([token]))


def _is_fragment(starts):
    return any("#" in target for target in _targets(starts))


def _kinds(token):
    return [value for name in _KIND_NAMES if (value := _value(token, name))]


def _matches(pattern, starts):
    return any(pattern.search(value) for token in starts for value in _kinds(token))


def _is_called_mark(token):
    return _local(token) == "noteref" or _matches(_KIND, [token])


def _is_small(token):
    is_font = _local(token) == "font" and bool(_value(token, "size"))
    return is_font or _local(token) == "small" or bool(_SMALL_STYLE.search(_value(token, "style")))


def _touches(before):
    return bool(before) and not before[-1].isspace() and before[-1] not in OPENING


def _is_word(before):
    """Returns whether a number that follows, such as a link, can be the end of a word."""
    return before[-1].isdigit() or before[-1] in "-‐‑/_.,:$€£¥"
