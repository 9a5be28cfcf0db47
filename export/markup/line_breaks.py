"""Where lines and sentences of a text start that a splitter of sentences does not see."""

import re
import unicodedata

from export.markup.parsing.tokens import Kind, Token

# A line that is longer, and goes on with a capital letter, may have been broken to fit a width.
_WIDTH = 60
_CONTEXT = 32
_ENDS_LINE = re.compile(r"[.!?…:;。！？：；|]['\"”’»)\]]*$")
_ENDS_SENTENCE = re.compile(r"(?:[^\W\d_]{2}\.|[0-9]{3}\.|[^\W_][!?…]|\.\.\.|[。！？])[\"”’»)\]]*$")
_ADDRESS = re.compile(r"(?i)(?:www|\.[a-z]+)\.$")
# Words that end no line: articles, prepositions and conjunctions.
_GOES_ON = re.compile(
    r"(?i)(?:a|an|the|of|and|or|in|on|at|to|for|with|by|from|as|is|are"
    r"|der|die|das|den|dem|des|eine?|einen|einem|einer|und|oder|mit|von|zu|bei|für|im|am"
    r"|le|la|les|de|du|et|ou|à|au|aux|un|une|en|avec|el|los|las|y|o|con|por|para"
    r"|di|da|il|lo|gli|e|del|della|em|no|na|os|um|uma|do|dos|van|het|een|met|voor)"
)
# Titles and initials, behind which a name follows.
_TITLE = re.compile(
    r"(?:[^\W\d_]|Dr|Drs|Mr|Mrs|Ms|Hr|Fr|Frl|Prof|Rev|Gen|Col|Capt|Lt|Sgt|Sr|Sra|Srta|St|Ste|Mme"
    r"|Mlle|Mgr|Sig|Dott|Ing|Nr|No)\."
)
_SCRIPTS = frozenset(["sup", "sub"])
_CLOSING = "\"'”’»)]"
_OPENING = '"“„«‘¿¡(['


class LineBreaks:
    """Finds where lines start, and sentences that touch the one before.

    A line starts behind <br> if the line before is empty, ends with a sign, or is short and the
    next one does not go on in lower case. A sentence starts behind a tag or a mark that follows a
    full stop and precedes a capital letter, without white space.

    Attributes:
        places: where they start, as places in the text.
    """

    def __init__(self):
        self.places: list[int] = []
        self._line = ""
        self._num_breaks = 0  # since the last text that is not blank
        self._scripts = ("", "")  # what the last two tokens are: "break", "script" or ""
        self._touches = False  # whether only tags and marks are between it and the next text

    def pass_token(self, token: Token) -> None:
        """Takes note of what is between two texts."""
        is_break = token.kind is Kind.EMPTY and token.name == "br"
        is_script = token.name in _SCRIPTS
        if is_script and self._scripts == ("script", "break"):
            self._num_breaks -= 1  # a raised text stands above a lowered one
        self._scripts = (self._scripts[1], "break" if is_break else "script" if is_script else "")
        if token.kind is Kind.EMPTY:
            self._num_breaks += is_break
            self._touches = False
        elif token.kind is Kind.TEXT and not token.text.strip():
            self._touches = self._touches and not token.text

    def read(self, text: str, place: int) -> None:
        """Adds a text that starts at a place."""
        words = text.strip()
        if not words:
            return
        touches = self._touches and words[0] == text[0]
        if self._line and (self._starts_line(words) or (touches and self._starts_sentence(words))):
            self.places.append(place)
        if self._num_breaks:
            self._line = ""
        self._line = (self._line + text)[-_WIDTH - _CONTEXT :]
        self._num_breaks, self._touches = 0, not text[-1].isspace()

    def _starts_line(self, words) -> bool:
        if self._num_breaks != 1:
            return self._num_breaks > 1
        line = self._line.strip()
        last = line.rpartition(" ")[2]
        if (_TITLE.fullmatch(last) and not words[0].isdecimal()) or _GOES_ON.fullmatch(last):
            return False
        if _ENDS_LINE.search(line):
            return True
        # A number can go on with a sentence, and so can text of a script without capitals.
        is_number = words[0].isdecimal() or unicodedata.category(words[0]) == "Sc"
        goes_on = is_number and last[:1].islower() and line.count(" ") > 1
        is_new = not words[0].islower() and unicodedata.category(words[0]) not in ("Lo", "Lm")
        return is_new and not goes_on and len(line) <= _WIDTH

    def _starts_sentence(self, words) -> bool:
        first, second = (words.lstrip(_OPENING) + "  ")[:2]
        starts = first.isalpha() and not first.islower() and not second.isupper()
        line = self._line[-_CONTEXT:]
        if not starts or not _ENDS_SENTENCE.search(line) or _ADDRESS.search(line):
            return False
        is_name = line.rstrip(_CLOSING).rpartition(" ")[2][:1].isupper()  # as in Map.Entry
        return not is_name or " " in words
