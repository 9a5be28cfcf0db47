"""Model outputs as lines of a file or a terminal."""

import re

# All control characters except the tab, which separates columns.
_CONTROL = re.compile(r"[\x00-\x08\x0a-\x1f\x7f-\x9f]")


def join_lines(text: str) -> str:
    """Returns a model's output as one line: a vocabulary with bytes can produce line breaks."""
    return " ".join(text.splitlines())


def escape_control_characters(text: str) -> str:
    """Escapes control characters, so that a terminal does not execute them.

    A model can produce them if its vocabulary has bytes, or if its corpus had control characters.
    """
    return _CONTROL.sub(lambda found: found[0].encode("unicode_escape").decode(), text)
