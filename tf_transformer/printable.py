"""Text and values from outside, such as a file or a server, for a message on a terminal."""

import reprlib
from typing import Any

_LONGEST_VALUE = 200


def printable(text: str, max_length: int = 500) -> str:
    """Returns the text in one line, with what a terminal would obey shown escaped.

    That is every character that is not printable: control characters and so escape sequences, and
    those that reorder or hide text.

    Args:
        text: from anywhere.
        max_length: characters of it to show; `...` stands for what is left out.
    """
    line = " ".join(text[:max_length].split())
    shown = "".join(
        char if char.isprintable() else char.encode("unicode_escape").decode() for char in line
    )
    return f"{shown}..." if len(text) > max_length else shown


def shown(value: Any) -> str:
    """Returns `repr(value)`, shortened where it is long, deep or cannot be computed.

    Args:
        value: from anywhere; of a container, only the first entries are looked at.
    """
    try:
        text = _SHORT.repr(value)
    except Exception:  # a large int has no decimal digits, see `sys.set_int_max_str_digits`
        text = f"a value of type {type(value).__name__} that cannot be shown"
    return text if len(text) <= _LONGEST_VALUE else f"{text[:_LONGEST_VALUE]}..."


_SHORT = reprlib.Repr()
_SHORT.maxlevel = 3
_SHORT.maxstring = _SHORT.maxlong = _SHORT.maxother = 120
for _container in ("tuple", "list", "dict", "set", "frozenset", "deque", "array"):
    setattr(_SHORT, f"max{_container}", 10)
