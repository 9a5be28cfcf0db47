"""Rows of plain values, as users of the client have them, to arrays and back."""

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from export.client.messages import numpy_type
from export.client.signature import Signature, TensorSpec
from tf_transformer.errors import InputError

_MAX_NAMES = 20  # of a message
_MAX_NAME_LENGTH = 100


def count_rows(inputs: Mapping[str, Sequence]) -> int:
    """How many rows all inputs have.

    Raises:
        ValueError: they differ, or one is a single string.
    """
    for name, values in inputs.items():
        if isinstance(values, str | bytes):
            raise InputError(f"input {name!r} must have one entry a row. Received: {values[:80]!r}")
    counts = {name: len(values) for name, values in inputs.items()}
    if len(set(counts.values())) != 1:
        raise InputError(f"every input must have one entry a row. Received: {counts} entries")
    return next(iter(counts.values()))


def check_names(inputs: Mapping[str, Sequence], name: str, signature: Signature) -> None:
    """Compares the names of inputs with those that the signature `name` takes.

    Raises:
        ValueError: one is missing, or one too many.
    """
    for what, names in (
        ("has no input", set(inputs) - set(signature.inputs)),
        ("also needs the input", set(signature.inputs) - set(inputs)),
    ):
        if names:
            raise InputError(
                f"signature {name!r} {what} {listed(names)}; its inputs are "
                f"{listed(signature.inputs)}"
            )


def listed(names: Iterable[str]) -> str:
    """Returns names, which a server may have sent, for a message: quoted, and not too many."""
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
    """Some rows of an input as an array of its type and shape.

    Raises:
        ValueError: names the rows that do not fit, or hold no values: TF Serving never answers a
            request without any.
    """
    if not len(values):
        raise InputError(
            f"input {name!r} must have one entry a row. Received: none in row {first_row + 1}"
        )
    if spec.data_type == "DT_STRING":
        values = [_to_bytes(name, value, row) for row, value in enumerate(values, first_row)]
    dtype = numpy_type(spec.data_type)
    try:
        found = np.asarray(values, dtype if dtype.kind == "O" else None)
    except ValueError as error:
        raise InputError(
            f"input {name!r} takes lists of one width. Received: several widths in "
            f"{_described(values, first_row)}"
        ) from error
    if not found.size:
        raise InputError(
            f"input {name!r} takes at least one value a row. Received: {_shown(found.shape)}, in "
            f"{_described(values, first_row)}"
        )
    array = _cast(found, dtype)
    if array is None or not _fits(found.shape, spec.shape):
        wanted = f"{spec.data_type.removeprefix('DT_').lower()}, {_shown(spec.shape)}"
        raise InputError(
            f"input {name!r} takes {wanted}. Received: {found.dtype}, {_shown(found.shape)}, in "
            f"{_described(values, first_row)}"
        )
    return array


def _described(values, first_row):
    return f"rows {first_row + 1} to {first_row + len(values)}, {values[0]!r} first"


def _cast(array, dtype):
    """The array as another type that holds its values, or None."""
    takes = {"f": "iuf", "i": "iu", "u": "iu"}.get(dtype.kind, dtype.kind)
    if array.dtype.kind not in takes:
        return None
    with np.errstate(over="ignore"):
        cast = array.astype(dtype)
    return None if dtype.kind in "iu" and (cast != array).any() else cast


def _fits(found, wanted):
    return wanted is None or (
        len(found) == len(wanted)
        and all(b in (None, a) for a, b in zip(found, wanted, strict=True))
    )


def _shown(shape):
    if shape is None:
        return "of any shape"
    return f"shape ({', '.join('any' if size is None else str(size) for size in shape)})"


def _to_bytes(name, value, row):
    if isinstance(value, bytes):
        return value
    if not isinstance(value, str):
        raise InputError(f"input {name!r} takes strings. Received: {value!r} in row {row + 1}")
    try:
        return value.encode()
    except UnicodeEncodeError as error:
        raise InputError(f"input {name!r}, row {row + 1}: not Unicode text: {error}") from error


def to_rows(name: str, spec: TensorSpec, array: np.ndarray, num_rows: int) -> list:
    """An output's array as a list with one entry a row.

    Raises:
        OSError: it has another number of rows, or another shape than the signature says.
    """
    if array.shape[:1] != (num_rows,) or not _fits(array.shape, spec.shape):
        raise OSError(
            f"output {name!r} must have one entry a row, {_shown(spec.shape)}. Received: "
            f"{_shown(array.shape)} for {num_rows} rows"
        )
    if array.dtype.kind == "O":
        read = np.empty(array.size, np.object_)
        read[:] = [_read_string(value, name.endswith("_bytes")) for value in array.flat]
        array = read.reshape(array.shape)
    return array.tolist()


def _read_string(value, as_bytes):
    if isinstance(value, bytes):
        return value if as_bytes else value.decode(errors="replace")
    # JSON can write halves of characters that are none, which no file takes.
    value = value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return value.encode() if as_bytes else value
