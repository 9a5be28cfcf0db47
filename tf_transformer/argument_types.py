"""Type checks of arguments that are numbers or paths."""

import numbers
import os
import pathlib
from typing import Any

from tf_transformer.errors import InputError
from tf_transformer.printable import shown


def is_whole(value: Any) -> bool:
    """Returns whether a value is an integer of Python or NumPy, and not a bool."""
    return isinstance(value, numbers.Integral) and not isinstance(value, bool)


def is_number(value: Any) -> bool:
    """Returns whether a value is a real number of Python or NumPy, and not a bool."""
    return isinstance(value, numbers.Real) and not isinstance(value, bool)


def as_path(value: Any, name: str, meaning: str) -> pathlib.Path:
    """Returns an argument that is a path.

    Args:
        value: the argument, a string or a path of `pathlib`.
        name: its name, for the error message.
        meaning: of what it must be the path, such as "a model directory".

    Raises:
        InputError: it is neither, such as bytes, or no file can have the name.
    """
    path = value.__fspath__() if isinstance(value, os.PathLike) else value
    if not isinstance(path, str) or "\0" in path:
        raise InputError(
            f"`{name}` must be the path of {meaning}, a string or a pathlib.Path. "
            f"Received: {shown(value)}"
        )
    return pathlib.Path(path)
