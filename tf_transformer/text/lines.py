"""Files with a sentence a line."""


def one_line(text: str) -> str:
    """A model's output for such a file: where its vocabulary has bytes, it may spell line ends."""
    return " ".join(text.splitlines())
