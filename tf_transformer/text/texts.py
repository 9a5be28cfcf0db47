"""Checks of arguments that are lists of strings."""

from collections.abc import Iterable, Mapping
from typing import Any

from tf_transformer.errors import InputError


def list_of_texts(texts: Iterable[str | bytes], name: str) -> list[str | bytes]:
    """Checks texts and returns them as a list.

    Args:
        texts: strings, or their UTF-8 bytes, in which what is no UTF-8 counts as U+FFFD, as in the
            signatures of a SavedModel: a list or another iterable with an order, an array of
            NumPy, or an eager tensor.
        name: name of the argument, for the error message.

    Raises:
        InputError: `texts` is a single string, a dictionary, a set or not iterable, has several
            axes, or an entry is not a string, or has a lone surrogate.
    """
    expected = f"`{name}` must be a list of strings. Received:"
    values: Any = texts
    if hasattr(values, "numpy"):  # a tensor, without importing TensorFlow
        values = values.numpy()
    if isinstance(values, str | bytes):
        raise InputError(f"{expected} a single string, {values[:40]!r}. Put it into a list")
    if isinstance(values, Mapping | set | frozenset):
        raise InputError(f"{expected} {type(texts).__name__}. Give its texts as a list")
    if hasattr(values, "tolist") and hasattr(values, "shape"):  # an array
        if len(values.shape) != 1:
            raise InputError(f"{expected} {type(texts).__name__} of the shape {values.shape}")
        values = values.tolist()
    try:
        listed = list(values)
    except TypeError as error:  # for example, of a symbolic tensor
        raise InputError(f"{expected} {type(texts).__name__}") from error
    for index, text in enumerate(listed):
        if not isinstance(text, str | bytes):
            raise InputError(f"{expected} {type(text).__name__} at index {index}")
        if isinstance(text, str):
            encode_text(text, f"`{name}`, index {index}")
    return listed


def encode_text(text: str, where: str) -> bytes:
    """Returns a text in UTF-8.

    Args:
        text: any string of Python, which may contain halves of surrogate pairs, as after reading
            JSON or with `errors="surrogateescape"`.
        where: what the text is, for the error message.

    Raises:
        InputError: the text contains such a half, which has no UTF-8.
    """
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise InputError(
            f"{where}: not Unicode text: a lone surrogate, U+{ord(text[error.start]):X}, at "
            f"character {error.start}. Read the text as UTF-8, or with errors='replace'"
        ) from error
