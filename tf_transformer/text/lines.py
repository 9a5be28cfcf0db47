"""Files with a sentence a line."""

import re

# A tab stands between columns.
_CONTROL = re.compile(r"[\x00-\x08\x0a-\x1f\x7f-\x9f]")


def one_line(text: str) -> str:
    """A model's output for such a file: where its vocabulary has bytes, it may spell line ends."""
    return " ".join(text.splitlines())


def for_terminal(text: str) -> str:
    """Returns text with control characters escaped, which a terminal would obey.

    A model may put out escape sequences, where its vocabulary has bytes or its corpus had them.
    """
    return _CONTROL.sub(lambda found: found[0].encode("unicode_escape").decode(), text)
