"""The shapes of compiled searches, see `CompiledSearch`. This module does not import TensorFlow."""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from tf_transformer.argument_types import is_whole
from tf_transformer.errors import InputError
from tf_transformer.printable import shown

_MAX_ROWS = 1024


class SearchShape(NamedTuple):
    """The largest batch that a compiled search can translate.

    Attributes:
        rows: number of sentences.
        length: number of tokens of a source, with its end.
    """

    rows: int
    length: int


_DEFAULT_LENGTHS = (16, 32, 64)
# Of `export --xla`, for single sentences.
DEFAULT_SHAPES = tuple(SearchShape(1, length) for length in _DEFAULT_LENGTHS)


def default_shapes(longest: int, rows: int = 1) -> list[SearchShape]:
    """Returns the default shapes for a number of rows.

    Args:
        longest: the longest source of the model, with its end.
        rows: number of sentences.
    """
    return [SearchShape(rows, length) for length in _DEFAULT_LENGTHS if length <= longest]


def check_shapes(
    shapes: Iterable[Any], longest: int, name: str = "`compiled_shapes`"
) -> list[SearchShape]:
    """Checks the shapes of compiled searches.

    Args:
        shapes: pairs of a number of rows and a length.
        longest: the longest source of the model, with its end.
        name: the name of `shapes`, for the error message.

    Raises:
        InputError: a shape is not a pair of integers, or out of range.
    """
    checked = []
    for shape in shapes:
        numbers = tuple(shape) if isinstance(shape, Sequence) else ()
        is_pair = len(numbers) == 2 and all(map(is_whole, numbers))
        if not is_pair or not (1 <= numbers[0] <= _MAX_ROWS and 2 <= numbers[1] <= longest):
            raise InputError(
                f"{name} must be pairs of a number of rows, 1 to {_MAX_ROWS}, and a length of the "
                f"source with its end, 2 to {longest}. Received: {shown(shape)}"
            )
        checked.append(SearchShape(*map(int, numbers)))
    return checked
