"""Rules by which texts are split into sentences, for RE2 in the graph and in Python.

Stops that end no sentence are disabled first, by a control character behind them. What remains of
`.`, `!`, `?` and their relatives, before white space, ends a sentence. In Chinese and Japanese,
full-width ones do so without white space, as do `!` and `?`; a line break always does. The document
is then split at these places, and the control characters are removed. RE2 runs in linear time.

Some cases have no right answer without understanding the text: "He met the Dr. She was glad." Where
a sentence is more likely to go on, it does: to cut one in two spoils both parts.
"""

import itertools
import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from tf_transformer.documents.abbreviations import find_abbreviations
from tf_transformer.documents.degrees import FIRST_PARTS, FIRST_WORDS, NEXT_PARTS
from tf_transformer.documents.exclamation_names import NAMES, NEXT_OF_ANY_NAME, NEXT_WORDS
from tf_transformer.documents.sentence_starters import Starters

# Character classes of RE2, inside brackets. `\s` alone is ASCII.
SPACE = r"\s\x{0B}\x{85}\p{Z}"
_BREAK = r"\n\r\x{0B}\x{0C}\x{85}\x{2028}\x{2029}"
# Zero-width and bidirectional characters may follow a stop, too.
_FORMAT = r"\x{61C}\x{200B}-\x{200F}\x{202A}-\x{202E}\x{2060}-\x{2069}\x{FEFF}"
_WIDE_CLOSING = rf"\p{{Pe}}\p{{Pf}}\"'{_FORMAT}"
# These also open quotations, and close them in German.
_CLOSING = rf"{_WIDE_CLOSING}\x{{201C}}\x{{2018}}\x{{AB}}\x{{2039}}"
_OPENING = r"\p{Ps}\p{Pi}\"'\x{201E}\x{201A}\x{BB}\x{A1}\x{BF}"
_STOP = (
    r".!?\x{2026}\x{203C}\x{2047}-\x{2049}\x{037E}\x{0589}\x{061F}\x{06D4}\x{0964}\x{0965}"
    r"\x{104A}\x{104B}\x{1362}\x{1367}\x{17D4}"
)
_WIDE_STOP = r"\x{3002}\x{FF01}\x{FF1F}\x{FF61}"
_UNSPACED = r"\p{Han}\p{Hiragana}\p{Katakana}"
# Scripts in which a sentence begins with a capital. All letters of Georgian count as lower case.
_CASED = r"\p{Latin}\p{Greek}\p{Cyrillic}\p{Armenian}"
_ROMAN = "IVXLCDM"

# Patterns.
_BEGIN = r"(?:^|[^\pL\pN])"  # before a word
_CLOSE = rf"(?:[ \x{{A0}}\x{{202F}}]\x{{BB}}|[{_CLOSING}])"
# Also behind the dash that parts direct speech from what follows it.
_LOWER_CASE = rf"[{SPACE}]+(?:[\x{{2013}}\x{{2014}}][{SPACE}]*)?\p{{Ll}}"
# Marks of notes between a stop and the next sentence: [1] and superscript digits.
_NOTE = r"(?:\[\pN{1,3}\]|[\x{B9}\x{B2}\x{B3}\x{2070}\x{2074}-\x{2079}])"
_GREEK_QUESTION = r"\p{Greek};"  # looks like a semicolon, and mostly is one
# Japanese particles after a quotation, and words that begin like one.
_QUOTED = r"と|って|を|だと|なんて|など|[のが]\p{Han}"
_NOT_QUOTED = "と(?:ても|ころ|にかく|りあえず|うとう|き|なり|もだち|もに|おい|おく|くに)"

# Behind stops that end no sentence: in any case; unless a word follows that begins a sentence; and
# the same for initials, where fewer words do. And behind sentences, where the document is split.
_JOINED, _AFTER_NAME, _INITIAL, MARK = "\x01", "\x02", "\x03", "\x04"
_CONTROL, _OTHER_CONTROL = r"[\x01-\x05]", "\x06"
_PERIOD = rf"\.[{_JOINED}{_AFTER_NAME}{_INITIAL}]?"  # joined or not
# Abbreviations that are names if they have a capital.
_NAMES = ("al", "max", "os")
# Abbreviations before the sign of a section; elsewhere they may be words, as in "It is a gem."
_BEFORE_SECTIONS = "gem lt entspr analog sog"
# A word of at most so many letters before a period is an abbreviation if lower case follows.
_LONGEST_ABBREVIATION = 4


class Rule(NamedTuple):
    r"""What is replaced in a document, in RE2's syntax.

    Attributes:
        pattern: what is replaced, wherever it matches.
        replacement: by what; `\0` is the whole match.
        condition: a pattern; the rule is only for documents in which it matches somewhere.
    """

    pattern: str
    replacement: str
    condition: str = ""


def sentence_rules(languages: Iterable[str]) -> Iterator[Rule]:
    """Yields the rules, which are applied one after the other.

    They add `MARK` behind sentences and, except that the control characters U+0001 to U+0005 become
    U+0006, change nothing else.

    Args:
        languages: whose abbreviations are known, see `find_abbreviations`.

    Raises:
        InputError: a language is no code of a language.
    """
    yield from itertools.starmap(Rule, _join_abbreviations(languages))
    # Without capitals, lower case does not tell that a sentence goes on.
    yield Rule(rf"([!?])({_LOWER_CASE})", rf"\1{_JOINED}\2", condition=r"\p{Lu}")
    yield from itertools.starmap(Rule, _mark_ends())


def _join_abbreviations(languages: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Yields rules that disable periods that end no sentence."""
    known, starters = find_abbreviations(languages)
    yield _CONTROL, _OTHER_CONTROL
    # 1. "z.B.", "p.m.", "G.B.J.", initials; an "I" within a sentence is no initial.
    yield r"\pL\.\pL\.", rf"\0{_AFTER_NAME}"
    yield rf"{_AFTER_NAME}\pL\.", rf"\0{_AFTER_NAME}"
    before = rf"(?:^|[{SPACE}{_AFTER_NAME}.,;:\p{{Ps}}\p{{Pi}}\p{{Pd}}\"'])"
    yield rf"{before}\p{{Ll}}\.", rf"\0{_AFTER_NAME}"
    yield rf"{before}[\p{{Lu}}\p{{Lt}}\p{{Lo}}]\.", rf"\0{_INITIAL}"
    yield rf"((?:^|[^\pL])\p{{Ll}}+,?[{SPACE}]+I\.){_INITIAL}", r"\1"
    # 2. The lists. They come later: a "p" of one must not hide the first period of "p.m.".
    yield rf"{_BEGIN}(?:{_alternatives(known.anywhere)}){_PERIOD}", rf"\0{_JOINED}"
    upper = _alternatives(known.anywhere.upper())
    for _ in range(2):  # of "PROF. DR. MAIER", the space after the first is before the second
        yield rf"({_BEGIN}(?:{upper})\.)([{SPACE}]+(?:\p{{Lu}}{{2}}|\pN))", rf"\1{_JOINED}\2"
    words = _alternatives(f"{known.after_names} {known.after_names.upper()}")
    yield rf"{_BEGIN}(?:{words}){_PERIOD}", rf"\0{_AFTER_NAME}"
    words = _alternatives(f"{known.before_numbers} {known.before_numbers.upper()}")
    number = rf"[{SPACE}]*[(\[]?(?:\pN|(?:[{_ROMAN}]{{2,}}|[VX])(?:$|[^\pL]))"
    yield rf"({_BEGIN}(?:{words})\.)({number})", rf"\1{_JOINED}\2"
    words = _alternatives(_BEFORE_SECTIONS)
    yield rf"({_BEGIN}(?:{words})\.)([{SPACE}]*§)", rf"\1{_JOINED}\2"
    yield from _join_degrees()
    yield from _join_exclamations()
    # 3. Dates, and an ellipsis with spaces; numbers of lists and ordinal numbers.
    first, second = r"(?:\pN{1,2})?\.", r"[ \x{A0}](?:\pN{1,2})?\."
    third = r"[ \x{A0}](?:\pN{4}|\.)"
    yield rf"({_BEGIN}{first})({second})({third})", rf"\1{_JOINED}\2{_JOINED}\3"
    start = rf"^[ \t]*(?:[\x{{2022}}\x{{2043}}\x{{B7}}*\p{{Pd}}][ \t]*)?|[.!?]{_CLOSE}*[ \t]+"
    number = r"\pN{1,3}(?:\.\pN{1,3})*|[IVX]{1,4}|[a-z]"
    yield rf"(?m)((?:{start})(?:{number})\.{_AFTER_NAME}?\)?)([ \t])", rf"\1{_JOINED}\2"
    if known.ordinals:  # but no number after an abbreviation: "Nr. 5. Dann"
        before = rf"[^\pN{SPACE}{_JOINED}{_AFTER_NAME}][{SPACE}]|[\p{{Ps}}\p{{Pi}}\p{{Pd}}/]"
        yield rf"((?:^|{before})(?:\pN{{1,2}}|[{_ROMAN}]{{2,5}})\.)( )", rf"\1{_AFTER_NAME}\2"
    if known.after_ordinals:
        words = _alternatives(known.after_ordinals)
        number = rf"\pN{{1,2}}|[{_ROMAN}]{{1,7}}"
        yield rf"({_BEGIN}(?:{number})\.)( +(?:{words})\b)", rf"\1{_JOINED}\2"
    yield from _part_before_starters(starters, known.after_times)
    # 4. Before lower case: numbers, other abbreviations, an ellipsis, the end of a quotation.
    parts = {*FIRST_PARTS.split(), *NEXT_PARTS.split()}
    long = _alternatives(
        " ".join(sorted(part for part in parts if len(part) > _LONGEST_ABBREVIATION))
    )
    word = rf"[{_CASED}]{{1,{_LONGEST_ABBREVIATION}}}|[{_ROMAN}]{{1,8}}|\pN{{1,4}}|{long}"
    for _ in range(2):  # of "rer. nat.", the space before the second is that after the first
        yield rf"({_BEGIN}(?:{word})\.)({_LOWER_CASE})", rf"\1{_JOINED}\2"
    yield rf"([.!?])({_CLOSE}+{_LOWER_CASE})", rf"\1{_JOINED}\2"
    pause = rf"\.{_JOINED}? ?\.|\x{{2026}}|{_GREEK_QUESTION}"
    yield rf"({pause})([{_CLOSING}]*{_LOWER_CASE})", rf"\1{_JOINED}\2"


def _join_degrees() -> Iterator[tuple[str, str]]:
    """Yields rules that disable the periods of degrees such as "Dr. rer. nat."."""
    first = _alternatives(f"{FIRST_PARTS} {FIRST_PARTS.upper()}")
    # Those in lower case only so: in "Kom med. Dr. Lund går.", a sentence ends.
    words = "|".join(map(re.escape, f"{NEXT_PARTS} {NEXT_PARTS.upper()}".split()))
    start = rf"{_BEGIN}(?:(?:{first})\.|(?:{_alternatives(FIRST_WORDS)})[{SPACE}])"
    following = rf"[{SPACE}\p{{Pd}}]*(?:et )?(?:{words})\.[{_JOINED}{_AFTER_NAME}{_INITIAL}]*"
    # Rule 4 disables those between. The last may end a sentence: "Er ist Dr. phil. Sie auch."
    yield (
        rf"({start})[{_JOINED}{_AFTER_NAME}{_INITIAL}]*((?:{following})+)",
        rf"\1{_JOINED}\2{_INITIAL}",
    )


def _join_exclamations() -> Iterator[tuple[str, str]]:
    """Yields rules that disable the marks of names such as "Yahoo!" before words of the names."""
    for names, words in (
        (_alternatives(NAMES), NEXT_WORDS),
        (r"\p{Lu}\pL*[!?]", NEXT_OF_ANY_NAME),
    ):
        following = rf"[{SPACE}]+(?:{_alternatives(words)})(?:$|[^\pL\pN])"
        yield rf"({_BEGIN}(?:{names}))({following})", rf"\1{_JOINED}\2"


def _part_before_starters(starters: Starters, after_times: str) -> Iterator[tuple[str, str]]:
    """Yields rules that enable the periods of names before words that begin a sentence.

    Args:
        starters: words that begin a sentence.
        after_times: words that do not after a time of day.
    """
    words = f"{starters.never_names} {starters.never_names.upper()}"
    for joined in (_INITIAL, f"{_INITIAL}?{_AFTER_NAME}"):
        next_word = rf"[{_OPENING}]*(?:{_alternatives(words)})[{SPACE},?!]"
        yield rf"{joined}([{_CLOSING}]*[{SPACE}]+(?:[\x{{A1}}\x{{BF}}]|{next_word}))", r"\1"
        words = f"{words} {starters.others} {starters.others.upper()}"
    # After a time of day a name begins a sentence, but "9 a.m. Tuesday" and "5 p.m. Eastern" go on.
    time = rf"(\pN[{SPACE}]?[ap]\.{_AFTER_NAME}?m\.){_AFTER_NAME}+"
    yield rf"{time}([{SPACE}]+(?:{_alternatives(after_times)})\b)", rf"\1{_JOINED}\2"
    yield rf"{time}([{_CLOSING}]*[{SPACE}]+[{_OPENING}]*\p{{Lu}}\p{{Ll}})", r"\1\2"


def _mark_ends() -> Iterator[tuple[str, str]]:
    """Yields rules that put a mark behind sentences."""
    yield rf"{_JOINED}([{SPACE}]+\p{{Georgian}})", r"\1"
    yield rf"([!?]){_JOINED}([{SPACE}]+\p{{Ll}}\p{{Lu}})", r"\1\2"  # "iPhone" may start one
    # 5. What is left ends sentences, and so do line breaks.
    stop, space = f"[{_STOP}{_WIDE_STOP}]", f"[{SPACE}]"
    wide = (
        f"(?:{stop}*[{_WIDE_STOP}]|[{_UNSPACED}][!?])[{_STOP}{_WIDE_STOP}{_WIDE_CLOSING}]*{space}*"
    )
    yield (
        f"{wide}|(?:{stop}+|{_GREEK_QUESTION}){_CLOSE}*{_NOTE}*{space}+",
        rf"\0{MARK}",
    )
    yield f"{space}*[{_BREAK}]{space}*", rf"\0{MARK}"
    # 6. But a quotation is a part of the sentence that says whose it is: 「...」と, “...？”她问.
    yield rf"([\x{{300D}}\x{{300F}}]){MARK}({_QUOTED})", r"\1\2"
    yield rf"([\x{{300D}}\x{{300F}}])({_NOT_QUOTED})", rf"\1{MARK}\2"
    yield (
        rf"([\x{{FF01}}\x{{FF1F}}!?][\x{{2019}}\x{{201D}}\x{{300D}}\x{{300F}}]){MARK}(\p{{Han}})",
        r"\1\2",
    )
    yield f"[{_JOINED}{_AFTER_NAME}{_INITIAL}]", ""


def _alternatives(words: str) -> str:
    """Returns a pattern of words; those in lower case may also start a sentence.

    `*` is the begin of any word, and `_` a space.
    """
    patterns = []
    for word in words.split():
        pattern = re.escape(word.removeprefix("*"))
        pattern = pattern.replace("_", r"[ \x{A0}\x{202F}]").replace(r"\.", _PERIOD)
        if word.startswith("*"):
            pattern = rf"\pL*{pattern}"
        elif word[0].islower() and word not in _NAMES:
            pattern = f"(?i:{pattern[0]}){pattern[1:]}"
        patterns.append(pattern)
    return "|".join(patterns)
