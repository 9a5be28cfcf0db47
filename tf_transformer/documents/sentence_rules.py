"""Rules by which texts are split into sentences, for RE2 in the graph and in Python.

Periods that end no sentence are hidden first, as control characters. What remains of `.`, `!`, `?`
and their relatives, before white space, ends a sentence. In Chinese and Japanese, full-width ones
do so without white space, as do `!` and `?`; a line break always does. The document is then split
at these places, and what was hidden is shown again. RE2 runs in linear time.
"""

import re
from collections.abc import Iterable, Iterator

from tf_transformer.documents.abbreviations import find_abbreviations

# Character classes of RE2, inside brackets. `\s` alone is ASCII.
SPACE = r"\s\x{0B}\x{85}\p{Z}"
_BREAK = r"\n\r\x{0B}\x{0C}\x{85}\x{2028}\x{2029}"
# Zero-width and bidirectional characters may follow a stop, too.
_FORMAT = r"\x{61C}\x{200B}-\x{200F}\x{202A}-\x{202E}\x{2060}-\x{2069}\x{FEFF}"
_WIDE_CLOSING = rf"\p{{Pe}}\p{{Pf}}\"'{_FORMAT}"
# These also open quotations, and close them in German.
_CLOSING = rf"{_WIDE_CLOSING}\x{{201C}}\x{{2018}}\x{{AB}}\x{{2039}}"
_STOP = r".!?\x{2026}\x{203C}\x{2047}-\x{2049}\x{061F}\x{06D4}\x{0964}\x{0965}\x{1362}\x{17D4}"
_WIDE_STOP = r"\x{3002}\x{FF01}\x{FF1F}\x{FF61}"

_UNSPACED = r"[\p{Han}\p{Hiragana}\p{Katakana}]"
# Japanese particles after a quotation, and words that begin like one.
_QUOTED = r"と|って|を|だと|なんて|など|[のが]\p{Han}"
_NOT_QUOTED = "と(?:ても|ころ|にかく|りあえず|うとう|き|なり|もだち|もに|おい|おく|くに)"

_PERIOD, _EXCLAMATION, _QUESTION, _ELLIPSIS, MARK = "\x01", "\x02", "\x03", "\x04", "\x05"
SHOWN = {_PERIOD: ".", _EXCLAMATION: "!", _QUESTION: "?", _ELLIPSIS: "\u2026"}
_CONTROL, _OTHER_CONTROL = r"[\x01-\x05]", "\x06"
# Abbreviations that are names if they have a capital.
_NAMES = ("al", "max", "os")
# A word of at most so many letters before a period is an abbreviation if lower case follows.
_LONGEST_ABBREVIATION = 4


def sentence_rules(languages: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Yields patterns and replacements, in RE2's syntax, which are applied one after the other.

    Args:
        languages: whose abbreviations are known, see `find_abbreviations`.

    Raises:
        InputError: a language is no code of a language.
    """
    known = find_abbreviations(languages)
    begin = r"(^|[^\pL\pN])"
    yield _CONTROL, _OTHER_CONTROL
    # 1. "z.B.", initials and abbreviations; an "I" within a sentence is no initial. The lists come
    # last: a "p" of one must not hide the first period of "p.m.", which takes it for an initial.
    yield r"(\pL\.\pL)\.", rf"\1{_PERIOD}"
    starter = rf"([{SPACE}]+(?:{'|'.join(known.starters.split())})[{SPACE}])"
    if known.starters:
        yield rf"(\pL\.\pL){_PERIOD}{starter}", r"\1.\2"
    yield rf"(^|[{SPACE}{_PERIOD}.,;:\p{{Ps}}\p{{Pi}}\p{{Pd}}\"'])(\pL)\.", rf"\1\2{_PERIOD}"
    yield rf"(\pL,?[{SPACE}]+I){_PERIOD}", r"\1."
    if known.starters:
        yield rf"(\pL{_PERIOD}\pL){_PERIOD}{starter}", r"\1.\2"
    if known.anywhere:
        yield rf"{begin}({_alternatives(known.anywhere)})\.", rf"\1\2{_PERIOD}"
        upper = "|".join(map(re.escape, known.anywhere.upper().split()))
        for _ in range(2):  # of "PROF. DR. MAIER", the space after the first is before the second
            yield rf"{begin}({upper})\.([{SPACE}]+(?:\p{{Lu}}{{2}}|\pN))", rf"\1\2{_PERIOD}\3"
    if known.before_numbers:
        words = _alternatives(f"{known.before_numbers} {known.before_numbers.upper()}")
        yield rf"{begin}({words})\.([{SPACE}]*[(\[]?\pN)", rf"\1\2{_PERIOD}\3"
    if known.may_end:
        words = _alternatives(known.may_end)
        yield rf"{begin}({words})\.", rf"\1\2{_PERIOD}"
        if known.starters:
            yield rf"{begin}({words}){_PERIOD}{starter}", r"\1\2.\3"
    # 2. Numbers of lists and ordinal numbers.
    yield r"(?m)(^[ \t]*(?:\pN{1,3}(?:\.\pN{1,3})*|[IVX]{1,4}))\.([ \t])", rf"\1{_PERIOD}\2"
    if known.ordinals:
        for _ in range(2):  # the space before a second one is that after the first: "1. 1. 2020"
            yield rf"{begin}(\pN{{1,2}})\.( )", rf"\1\2{_PERIOD}\3"
    else:
        yield rf"{begin}(\pN{{1,2}})\.( +\p{{Ll}})", rf"\1\2{_PERIOD}\3"
    if known.months:
        months = _alternatives(known.months)
        yield rf"{begin}(\pN{{1,2}})\.( +(?:{months})\b)", rf"\1\2{_PERIOD}\3"
    # 3. Before lower case: other abbreviations, an ellipsis, the end of a quotation.
    next_word = rf"[{SPACE}]+\p{{Ll}}"
    yield rf"{begin}(\pL{{1,{_LONGEST_ABBREVIATION}}})\.({next_word})", rf"\1\2{_PERIOD}\3"
    if known.titles:
        for _ in range(3):  # as in "Dr. rer. nat. habil."
            yield rf"({_PERIOD}[{SPACE}]+(?:{_alternatives(known.titles)}))\.", rf"\1{_PERIOD}"
    yield rf"\.\.([{_CLOSING}]*{next_word})", rf".{_PERIOD}\1"
    yield rf"\x{{2026}}([{_CLOSING}]*{next_word})", rf"{_ELLIPSIS}\1"
    closing = rf"(?:[ \x{{A0}}\x{{202F}}]\x{{BB}}|[{_CLOSING}])"
    for hidden in (_PERIOD, _EXCLAMATION, _QUESTION):
        yield rf"[{SHOWN[hidden]}]({closing}+{next_word})", rf"{hidden}\1"
    # A name such as "Yahoo!" within a sentence; "iPhone" may start one.
    for hidden in (_EXCLAMATION, _QUESTION):
        yield rf"[{SHOWN[hidden]}]([{SPACE}]+\p{{Ll}}(?:\P{{Lu}}|\z))", rf"{hidden}\1"
    # 4. What is left ends sentences, and so do line breaks.
    stop, space = f"[{_STOP}{_WIDE_STOP}]", f"[{SPACE}]"
    wide = f"(?:{stop}*[{_WIDE_STOP}]|{_UNSPACED}[!?])[{_STOP}{_WIDE_STOP}{_WIDE_CLOSING}]*{space}*"
    yield f"{wide}|{stop}+{closing}*{space}+", rf"\0{MARK}"
    yield f"{space}*[{_BREAK}]{space}*", rf"\0{MARK}"
    # 5. But a quotation is a part of the sentence that says whose it is: 「...」と, “...？”她问.
    yield rf"([\x{{300D}}\x{{300F}}]){MARK}({_QUOTED})", r"\1\2"
    yield rf"([\x{{300D}}\x{{300F}}])({_NOT_QUOTED})", rf"\1{MARK}\2"
    yield (
        rf"([\x{{FF01}}\x{{FF1F}}!?][\x{{2019}}\x{{201D}}\x{{300D}}\x{{300F}}]){MARK}(\p{{Han}})",
        r"\1\2",
    )


def _alternatives(words):
    """Returns a pattern of words; those in lower case may also start a sentence.

    `*` is the begin of any word, and `_` a space.
    """
    patterns = []
    for word in words.split():
        pattern = re.escape(word.removeprefix("*").replace("_", " "))
        if word.startswith("*"):
            pattern = rf"\pL*{pattern}"
        elif word[0].islower() and word not in _NAMES:
            pattern = f"(?i:{pattern[0]}){pattern[1:]}"
        patterns.append(pattern)
    return "|".join(patterns)
