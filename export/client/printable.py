"""Text that a server sent, for a message on a terminal."""


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
