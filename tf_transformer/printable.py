"""Untrusted text and values, such as those of a file or a server, in messages on a terminal."""

import reprlib
from typing import Any

_MAX_VALUE_LENGTH = 200


def printable(text: str, max_length: int = 500) -> str:
    """Returns a text as one line in which all characters that are not printable are escaped.

    These are control characters, which a terminal would execute, and characters that reorder or
    hide text.

    Args:
        text: any text.
        max_length: number of characters to keep; `...` replaces the rest.
    """
    line = " ".join(text[:max_length].split())
    shown = "".join(
        char if char.isprintable() else char.encode("unicode_escape").decode() for char in line
    )
    return f"{shown}..." if len(text) > max_length else shown


def shown(value: Any) -> str:
    """Returns `repr(value)`, abbreviated if it is long or deep or cannot be computed.

    Args:
        value: any value; only the first entries of a container are used.
    """
    try:
        text = _SHORT.repr(value)
    except Exception:  # a large int has no decimal digits, see `sys.set_int_max_str_digits`
        text = f"a value of type {type(value).__name__} that cannot be shown"
    return text if len(text) <= _MAX_VALUE_LENGTH else f"{text[:_MAX_VALUE_LENGTH]}..."


_SHORT = reprlib.Repr()
_SHORT.maxlevel = 3
_SHORT.maxstring = _SHORT.maxlong = _SHORT.maxother = 120
for _container in ("tuple", "list", "dict", "set", "frozenset", "deque", "array"):
    setattr(_SHORT, f"max{_container}", 10)
