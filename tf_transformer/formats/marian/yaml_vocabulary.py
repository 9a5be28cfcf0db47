"""Pieces and their ids in YAML, read and written as by yaml-cpp, which Marian uses.

A vocabulary is one flat mapping. What a scalar contains and where it ends is as in yaml-cpp's
scantoken.cpp, scanscalar.cpp and exp.h: only LF and CR LF end a line, all other characters, such as
U+0085 and U+2028, are part of a piece. PyYAML and YAML 1.2 are stricter, or change them to spaces.
"""

import re
from collections.abc import Iterator, Sequence

from tf_transformer.errors import InputError
from tf_transformer.printable import shown

# What yaml-cpp writes in double quotes for U+007F and U+07FF, one byte too long.
_TOO_LONG = {b"\xc1\xbf": b"\x7f", b"\xe0\x9f\xbf": "\u07ff".encode()}
_BREAK, _BLANKS = re.compile(r"\r?\n"), re.compile(r"[ \t]*")
_ESCAPED_BREAK = re.compile(r"\\(\r?\n)")
_GAP = re.compile(r"(?:[ \t]+|\r?\n|#[^\n]*)*")
_AFTER = r"(?=[ \t\n]|\r\n|\Z)"
_REST = re.compile(r"(?:[ \t]+#[^\n]*|[ \t]*)(?=\r?\n|\Z)")
# Quoted scalars in one line; `_unquoted` reads what is between the quotes.
_QUOTED = r'"(?:[^"\\\n]|\\[^\n])*"|' + r"'(?:[^'\n]|'')*'"
_BLOCK_END = rf":{_AFTER}|[ \t\n]#|\r\n#"
_FLOW_END = r":(?=[ \t\n,\]}]|\r\n|\Z)|[,?\[\]{}]|[ \t\n]#|\r\n#"
_BLOCK_PLAIN = rf"(?![,\[\]{{}}#&*!|>'\"%@`]|[-?:]{_AFTER})(?:(?!{_BLOCK_END}|\r?\n).)+"
_FLOW_PLAIN = rf"(?![?,\[\]{{}}#&*!|>'\"%@`]|[-:][ \t])(?:(?!{_FLOW_END}|\r?\n).)+"
_BLOCK_KEY = re.compile(rf"({_QUOTED}|{_BLOCK_PLAIN})[ \t]*:{_AFTER}", re.DOTALL)
_FLOW_KEY = re.compile(rf"(?:({_QUOTED})[ \t]*:|({_FLOW_PLAIN}):(?=[ \t\n,}}]|\r\n|\Z))", re.DOTALL)
_COMPLEX_KEY = re.compile(r"\?(?=[ \t\n]|\r\n)")
_VALUE = re.compile(rf":{_AFTER}")
_ID = re.compile(r"([\"']?)(0|[1-9][0-9]*)\1(?=[ \t\n,}]|\r\n|\Z)")
_DOCUMENT_START, _DOCUMENT_END = re.compile(rf"---{_AFTER}"), re.compile(rf"\.\.\.{_AFTER}")
_ESCAPE = re.compile(
    r"\\(?:x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|(.)|$)", re.DOTALL
)
_ESCAPED = {
    "0": "\0", "a": "\a", "b": "\b", "t": "\t", "\t": "\t", "n": "\n", "v": "\v", "f": "\f",
    "r": "\r", "e": "\x1b", " ": " ", '"': '"', "'": "'", "\\": "\\", "/": "/", "N": "\x85",
    "_": "\xa0", "L": "\u2028", "P": "\u2029",
}  # fmt: skip
# The usual lines, which need no further checks.
_USUAL = re.compile(
    r"""([^\s,\[\]{}#&*!|>'"%@`:?-][^ \t\r\n:#]*|"[^"\\\n]*"): (0|[1-9][0-9]{0,8})\n"""
)
# yaml-cpp looks for the colon behind a key in the first 1024 bytes.
_LONGEST_KEY = 1000
# Plain scalars that are no text.
_NULLS = ("", "~", "null", "Null", "NULL")


def read_entries(content: bytes, where: object) -> Iterator[tuple[str, int]]:
    """Yields the pieces of a YAML vocabulary and their ids.

    Args:
        content: the file.
        where: its path, for error messages.

    Raises:
        InputError: it is not UTF-8, or no flat mapping of text to ids.
    """
    for written, meant in _TOO_LONG.items():
        content = content.replace(written, meant)
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise InputError(f"{where}: not UTF-8") from error
    yield from _Scanner(text.removeprefix("\ufeff"), where).entries()


class _Scanner:
    """Reads one document from its beginning to its end."""

    def __init__(self, text: str, where: object):
        self._text = text
        self._where = where
        self._at = 0
        self._has_tabs = "\t" in text

    def entries(self) -> Iterator[tuple[str, int]]:
        """Yields the pieces and their ids."""
        if match := re.search("[\0\x04]", self._text):  # yaml-cpp's own signs
            self._at = match.start()
            raise self._fault(f"the character U+{ord(match[0]):04X} must be escaped")
        self._skip_gap()
        while self._text.startswith("%", self._at) and self._column() == 0:
            self._at = self._end_of_line()
            self._skip_gap()
        if self._column() == 0 and self._skip(_DOCUMENT_START):
            self._skip_gap()
        if self._at == len(self._text):
            raise self._fault("there are none")
        is_flow = self._text.startswith("{", self._at)
        yield from self._flow_entries() if is_flow else self._block_entries()
        self._skip_gap()
        if self._column() == 0 and self._skip(_DOCUMENT_END):
            self._skip_gap()
        if self._at < len(self._text):
            raise self._fault("expected the end")

    def _block_entries(self) -> Iterator[tuple[str, int]]:
        first = self._column()
        while self._at < len(self._text) and not self._is_document_end():
            if self._column() == first == 0 and (match := _USUAL.match(self._text, self._at)):
                yield self._scalar(match[1]), int(match[2])
                self._at = match.end(2)
                self._check_indentation(first)
                self._skip_gap()
                continue
            if self._column() != first or not self._begins_line():
                raise self._fault("each must be on a line, below the first")
            if _COMPLEX_KEY.match(self._text, self._at):
                self._at += 1
                piece = self._complex_key(first)
                self._skip_gap()
                is_value = self._column() == first and self._begins_line()
                if not is_value or not self._skip(_VALUE):
                    raise self._fault("expected : and an id after ? and a piece")
            else:
                match = _BLOCK_KEY.match(self._text, self._at)
                if match is None:
                    raise self._fault("expected a piece, a colon, a space and an id")
                piece = self._scalar(match[1])
                self._at = match.end()
            self._skip_gap()
            yield piece, self._id(piece)
            if self._text[self._at - 1].isdecimal():  # it is not in quotes
                self._check_indentation(first)
            rest = _REST.match(self._text, self._at)
            if rest is None:
                raise self._fault("expected a new line after an id")
            self._at = rest.end()
            self._skip_gap()

    def _flow_entries(self) -> Iterator[tuple[str, int]]:
        self._at += 1
        self._skip_gap()
        while not self._text.startswith("}", self._at):
            match = _FLOW_KEY.match(self._text, self._at)
            if match is None:
                raise self._fault("expected a piece, a colon and an id")
            piece = self._scalar(match[1] or match[2])
            self._at = match.end()
            self._skip_gap()
            yield piece, self._id(piece)
            self._skip_gap()
            if not self._text.startswith(("}", ","), self._at):
                raise self._fault("expected a comma or } after an id")
            if self._text[self._at] == ",":
                self._at += 1
                self._skip_gap()
        self._at += 1

    def _id(self, piece: str) -> int:
        match = _ID.match(self._text, self._at)
        if match is None or len(match[2]) > 9:
            found = self._text[self._at : self._end_of_line()]
            raise self._fault(f"expected an id, got {shown(found)} for {shown(piece)}")
        self._at = match.end()
        return int(match[2])

    def _complex_key(self, column: int) -> str:
        """Reads the piece after `?`, which may have several lines."""
        self._skip_gap()
        quote = self._text[self._at : self._at + 1]
        if quote in ("'", '"'):
            self._at += 1
            end = re.compile(r"'(?!')" if quote == "'" else quote)
            piece = self._folded(end, quote, indent=0)
            if not self._skip(end):
                raise self._fault("expected a quotation mark at the end of the piece")
            return piece
        if not re.compile(_BLOCK_PLAIN, re.DOTALL).match(self._text, self._at):
            raise self._fault("expected a piece after ?")
        return self._plain(self._folded(re.compile(_BLOCK_END), "", indent=column + 1))

    def _folded(self, end: re.Pattern[str], quote: str, indent: int) -> str:
        """Reads the lines of a scalar, and joins them by spaces: yaml-cpp's `ScanScalar`."""
        text, scalar, is_empty = self._text, "", False
        while self._at < len(text):
            kept, is_joined = len(scalar), False
            while self._at < len(text) and not end.match(text, self._at):
                if _BREAK.match(text, self._at):
                    break
                if quote == '"' and (match := _ESCAPED_BREAK.match(text, self._at)):
                    self._at, kept, is_joined = match.end() - len(match[1]), len(scalar), True
                    break
                if quote == '"' and (match := _ESCAPE.match(text, self._at)):
                    scalar += self._unescape(match)
                    self._at, kept = match.end(), len(scalar)
                    continue
                if quote == "'" and text.startswith("''", self._at):
                    self._at += 1
                scalar += text[self._at]
                self._at += 1
                kept = kept if scalar[-1] in " \t" else len(scalar)
            if self._at == len(text) or end.match(text, self._at):
                break
            scalar = scalar[:kept]
            if not quote:
                self._check_indentation(indent - 1)
            self._skip(_BREAK)
            self._skip(_BLANKS)
            if _BREAK.match(text, self._at):
                scalar, is_empty = scalar + "\n", True
                continue
            scalar += "" if is_empty or is_joined else " "
            is_empty = False
            if self._column() < indent:
                break
        return scalar

    def _scalar(self, written: str) -> str:
        """Returns the text of a scalar."""
        if written[:1] == "'":
            return written[1:-1].replace("''", "'")
        if written[:1] == '"':
            return _ESCAPE.sub(self._unescape, written[1:-1])
        return self._plain(written)

    def _plain(self, written: str) -> str:
        text = written.strip(" \t\n")
        if text in _NULLS:
            raise self._fault(f"{text or 'nothing'} is no text without quotation marks")
        return text

    def _unescape(self, match: re.Match[str]) -> str:
        digits, character = match[1] or match[2] or match[3], match[4]
        if digits is None:
            if character not in _ESCAPED:
                raise self._fault(f"the escape {shown(match[0])} has no meaning")
            return _ESCAPED[character]
        code = int(digits, 16)
        if 0xD800 <= code < 0xE000 or code > 0x10FFFF:
            raise self._fault(f"the escape {shown(match[0])} is no character")
        return chr(code)

    def _check_indentation(self, column: int) -> None:
        """Checks that no tab indents the line behind a scalar without quotes, as yaml-cpp does.

        Args:
            column: the column of the mapping. Behind more spaces, a tab is white space.
        """
        if not self._has_tabs:
            return
        indented = rf"[ \t]*(?:\r?\n(?! {{0,{column}}}\t)[ \t]*)*\r?\n {{0,{column}}}\t"
        if match := re.compile(indented).match(self._text, self._at):
            self._at = match.end() - 1
            raise self._fault("a tab cannot indent a line")

    def _skip_gap(self) -> None:
        """Skips white space and comments."""
        gap = _GAP.match(self._text, self._at)
        self._at = gap.end() if gap else self._at

    def _skip(self, pattern: re.Pattern[str]) -> bool:
        match = pattern.match(self._text, self._at)
        self._at = match.end() if match else self._at
        return match is not None

    def _is_document_end(self) -> bool:
        is_end = _DOCUMENT_END.match(self._text, self._at) or _DOCUMENT_START.match(
            self._text, self._at
        )
        return bool(is_end) and self._column() == 0

    def _column(self) -> int:
        return self._at - self._text.rfind("\n", 0, self._at) - 1

    def _begins_line(self) -> bool:
        """Returns whether only spaces precede in the line."""
        return not self._text[self._at - self._column() : self._at].strip(" ")

    def _end_of_line(self) -> int:
        end = self._text.find("\n", self._at)
        return len(self._text) if end < 0 else end

    def _fault(self, problem: str) -> InputError:
        line = self._text.count("\n", 0, self._at) + 1
        return InputError(
            f"{self._where}: expected only pieces and their ids in YAML (line {line}, column "
            f"{self._column() + 1}: {problem})"
        )


def write_entries(pieces: Sequence[str]) -> str:
    """Returns a vocabulary of pieces, which have the ids from 0 on."""
    entries = []
    for token_id, key in enumerate(map(_quoted, pieces)):
        is_long = len(key.encode()) > _LONGEST_KEY
        entries.append(f"? {key}\n: {token_id}\n" if is_long else f"{key}: {token_id}\n")
    return "".join(entries)


def _quoted(text: str) -> str:
    quoted = text.replace("\\", "\\\\").replace('"', '\\"')
    escaped = (
        character if character.isprintable() else f"\\U{ord(character):08x}" for character in quoted
    )
    return f'"{"".join(escaped)}"'
