"""Converts between rows of Python values, as users of predictors see them, and arrays."""

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from tf_transformer.errors import InputError
from tf_transformer.predictors.signature import Signature, TensorSpec, numpy_type
from tf_transformer.printable import shown
from tf_transformer.text.texts import encode_text

_MAX_NAMES = 20  # shown in a message
_MAX_NAME_LENGTH = 100


def count_rows(inputs: Mapping[str, Sequence]) -> int:
    """Returns the number of rows that all inputs have.

    Raises:
        InputError: the numbers differ, or an input is a single string or no sequence.
    """
    for name, values in inputs.items():
        if isinstance(values, str | bytes) or not hasattr(values, "__len__"):
            raise InputError(
                f"input {name!r} must have one entry per row. Received: {shown(values)}"
            )
    counts = {name: len(values) for name, values in inputs.items()}
    if len(set(counts.values())) != 1:
        raise InputError(f"every input must have one entry per row. Received: {counts} entries")
    return next(iter(counts.values()))


def check_names(inputs: Mapping[str, Sequence], name: str, signature: Signature) -> None:
    """Checks that the inputs are those of the signature `name`.

    Raises:
        InputError: an input is missing or superfluous.
    """
    for what, names in (
        ("has no input", set(inputs) - set(signature.inputs)),
        ("also needs the input", set(signature.inputs) - set(inputs)),
    ):
        if names:
            raise InputError(
                f"signature {name!r} {what} {quote_names(names)}; its inputs are "
                f"{quote_names(signature.inputs)}"
            )


def quote_names(names: Iterable[str]) -> str:
    """Returns names for a message, quoted and shortened, since they may come from a server."""
    names = sorted(names)
    if not names:
        return "none"
    shown = [
        repr(name if len(name) <= _MAX_NAME_LENGTH else f"{name[:_MAX_NAME_LENGTH]}...")
        for name in names[:_MAX_NAMES]
    ]
    if len(names) > _MAX_NAMES:
        shown.append(f"and {len(names) - _MAX_NAMES} more")
    return ", ".join(shown)


def to_array(name: str, spec: TensorSpec, values: Sequence, first_row: int) -> np.ndarray:
    """Converts some rows of an input to an array.

    Args:
        name: name of the input.
        spec: its data type and shape.
        values: one entry per row.
        first_row: index of the first row, for messages.

    Raises:
        InputError: rows have a wrong type or shape, or no values, to which TF Serving would never
            respond; the message names the rows.
    """
    if not len(values):
        raise InputError(
            f"input {name!r} must have one entry per row. Received: none in row {first_row + 1}"
        )
    if spec.data_type == "DT_STRING":
        values = [_to_bytes(name, value, row) for row, value in enumerate(values, first_row)]
    dtype = numpy_type(spec.data_type)
    try:
        found = np.asarray(values, dtype if dtype.kind == "O" else None)
    except ValueError as error:
        raise InputError(
            f"input {name!r} must have lists of equal length. Received: several lengths in "
            f"{_describe_rows(values, first_row)}"
        ) from error
    if not found.size:
        raise InputError(
            f"input {name!r} must have at least one value per row. Received: "
            f"{_describe_shape(found.shape)}, in {_describe_rows(values, first_row)}"
        )
    array = _cast(found, dtype)
    if array is None or not _matches(found.shape, spec.shape):
        expected = f"{spec.data_type.removeprefix('DT_').lower()}, {_describe_shape(spec.shape)}"
        raise InputError(
            f"input {name!r} must be {expected}. Received: {found.dtype}, "
            f"{_describe_shape(found.shape)}, in {_describe_rows(values, first_row)}"
        )
    return array


def _describe_rows(values, first_row):
    return f"rows {first_row + 1} to {first_row + len(values)}, starting with {values[0]!r}"


def _cast(array, dtype):
    """Returns the array as another type, or None if that cannot hold its values."""
    castable = {"f": "iuf", "i": "iu", "u": "iu"}.get(dtype.kind, dtype.kind)
    if array.dtype.kind not in castable:
        return None
    with np.errstate(over="ignore"):
        cast = array.astype(dtype)
    return None if dtype.kind in "iu" and (cast != array).any() else cast


def _matches(shape, pattern):
    return pattern is None or (
        len(shape) == len(pattern)
        and all(expected in (None, size) for size, expected in zip(shape, pattern, strict=True))
    )


def _describe_shape(shape):
    if shape is None:
        return "of any shape"
    return f"shape ({', '.join('any' if size is None else str(size) for size in shape)})"


def _to_bytes(name, value, row):
    if isinstance(value, bytes):
        return value
    if not isinstance(value, str):
        raise InputError(
            f"input {name!r} must contain strings. Received: {value!r} in row {row + 1}"
        )
    return encode_text(value, f"input {name!r}, row {row + 1}")


def to_rows(name: str, spec: TensorSpec, array: np.ndarray, num_rows: int) -> list:
    """Converts an output's array to a list with one entry per row.

    Args:
        name: name of the output; strings become `bytes` if it ends in `_bytes`, otherwise `str`.
        spec: its data type and shape.
        array: the output.
        num_rows: number of rows requested.

    Raises:
        OSError: the number of rows is wrong, or the shape differs from that of the signature.
    """
    if array.shape[:1] != (num_rows,) or not _matches(array.shape, spec.shape):
        raise OSError(
            f"output {name!r} must have one entry per row, {_describe_shape(spec.shape)}. "
            f"Received: {_describe_shape(array.shape)} for {num_rows} rows"
        )
    if array.dtype.kind == "O":
        strings = np.empty(array.size, np.object_)
        strings[:] = [_convert_string(value, name.endswith("_bytes")) for value in array.flat]
        array = strings.reshape(array.shape)
    return array.tolist()


def _convert_string(value, as_bytes):
    if isinstance(value, bytes):
        return value if as_bytes else value.decode(errors="replace")
    # JSON can contain unpaired surrogates, which cannot be encoded as UTF-8.
    value = value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return value.encode() if as_bytes else value
