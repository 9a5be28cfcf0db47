"""The check of a value that was read from a pickle: only plain values and tensors, and finite."""

import dataclasses
from collections.abc import Iterable
from typing import Any

from tf_transformer.formats.tensors.pickle_values import PickledArray
from tf_transformer.formats.tensors.stored_file import FormatError
from tf_transformer.formats.tensors.tensor_file import StoredTensor

# Real checkpoints nest about 10 levels.
_MAX_DEPTH = 100
# A value can occur many times. Programs that visit each occurrence must come to an end.
_MAX_OCCURRENCES = 50_000_000


@dataclasses.dataclass(frozen=True)
class _Extent:
    """What a container holds, each occurrence counted.

    Attributes:
        depth: levels of containers, itself included.
        count: number of values.
        num_bytes: bytes of the tensors.
    """

    depth: int
    count: int
    num_bytes: int


def check_tree(root: Any) -> int:
    """Checks a value from a pickle.

    Args:
        root: the value.

    Returns:
        The bytes that are read when the tensors in it are read, at each occurrence.

    Raises:
        FormatError: it contains itself, other types than plain values and tensors, or too many
            levels or values, counted at each occurrence.
    """
    if not _is_container(root):
        return _leaf(root).num_bytes
    extents: dict[int, _Extent] = {}  # of containers that are done, by id
    entered: set[int] = set()  # containers around the current one
    to_visit = [root]
    while to_visit:
        container = to_visit[-1]
        if id(container) in extents:  # reached before, by another way
            to_visit.pop()
        elif id(container) in entered:  # all values in it have been visited
            to_visit.pop()
            entered.remove(id(container))
            extents[id(container)] = _extent(container, extents)
        else:
            entered.add(id(container))
            inner = [value for value in _values(container) if _is_container(value)]
            if any(id(value) in entered for value in inner):
                raise FormatError("contains a value that contains itself")
            to_visit.extend(inner)
    return extents[id(root)].num_bytes


def _is_container(value: Any) -> bool:
    return isinstance(value, dict | list | tuple)


def _values(container: Any) -> Iterable[Any]:
    return container.values() if isinstance(container, dict) else container


def _extent(container: Any, extents: dict[int, _Extent]) -> _Extent:
    depth, count, num_bytes = 0, 1, 0
    for value in _values(container):
        extent = extents[id(value)] if _is_container(value) else _leaf(value)
        depth = max(depth, extent.depth)
        count += extent.count
        num_bytes += extent.num_bytes
    if depth >= _MAX_DEPTH or count > _MAX_OCCURRENCES:
        raise FormatError(
            f"expected at most {_MAX_DEPTH} levels and {_MAX_OCCURRENCES:,} values, got more"
        )
    return _Extent(depth + 1, count, num_bytes)


_PLAIN = _Extent(0, 1, 0)


def _leaf(value: Any) -> _Extent:
    if isinstance(value, StoredTensor | PickledArray):
        if not value.dtype:
            raise FormatError("damaged: a NumPy array without values")
        return _Extent(0, 1, value.num_bytes)
    if value is None or isinstance(value, str | bytes | int | float):
        return _PLAIN
    raise FormatError(f"contains a {type(value).__name__} that is not part of a tensor")
