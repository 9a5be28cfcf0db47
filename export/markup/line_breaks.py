"""Where lines and sentences of a text start that a splitter of sentences does not see."""

import re

from export.markup.parsing.tokens import Kind, Token

# A line that is longer, and goes on with a capital letter, may have been broken to fit a width.
_WIDTH = 60
_CONTEXT = 32
_ENDS_LINE = re.compile(r"[.!?…:;。！？：；|]['\"”’»)\]]*$")
_ENDS_SENTENCE = re.compile(r"(?:[^\W\d_]{2}\.|[0-9]{3}\.|[^\W_][!?…]|\.\.\.|[。！？])[\"”’»)\]]*$")
_ADDRESS = re.compile(r"(?i)(?:www|\.[a-z]+)\.$")
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
        self._touches = False  # whether only tags and marks are between it and the next text

    def pass_token(self, token: Token) -> None:
        """Takes note of what is between two texts."""
        if token.kind is Kind.EMPTY:
            self._num_breaks += token.name == "br"
            self._touches = self._touches and token.name == "wbr"
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
        if self._num_breaks == 0:
            return False
        line = self._line.strip()
        is_new = not words[0].islower() and len(line) <= _WIDTH
        return is_new or self._num_breaks > 1 or _ENDS_LINE.search(line) is not None

    def _starts_sentence(self, words) -> bool:
        first, second = (words.lstrip(_OPENING) + "  ")[:2]
        starts = first.isalpha() and not first.islower() and not second.isupper()
        line = self._line[-_CONTEXT:]
        return starts and _ENDS_SENTENCE.search(line) is not None and not _ADDRESS.search(line)
