"""Weights in an HDF5 file: one dataset per weight, checked before it is read.

Datasets must be contiguous float32 arrays in this file, neither compressed nor external, and at
least half of their bytes must be stored on disk. So a small file cannot cause a large allocation,
and no dataset can refer to another file.
"""

import contextlib
import hashlib
import math
import os
import pathlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from typing import TYPE_CHECKING, Any

import h5py
import numpy as np

from tf_transformer.errors import InputError
from tf_transformer.storage.own_files import replacing_own
from tf_transformer.storage.regular_files import regular_size, stored_bytes
from tf_transformer.storage.weight_shapes import Shapes

if TYPE_CHECKING:  # functions that need no model must not import TensorFlow
    import keras

# From a name and the parts of an array, see `_parts`, to those to use instead.
Change = Callable[[str, Iterator[np.ndarray]], Iterator[np.ndarray]]

_DTYPE = np.dtype("float32")
# Upper limit of the bytes that HDF5 adds for an array, its name, and its groups.
_OVERHEAD = 2**13
_PART_BYTES = 2**26
# Where large arrays begin: at multiples of this, so that TensorFlow can use them where they are.
_ALIGNMENT = 64
_ALIGNED_BYTES = 2**20


class NotFiniteError(InputError):
    """Weights are NaN or infinite; the message names file and weight."""


def write_arrays(
    path: pathlib.Path,
    shapes: Shapes,
    arrays: Iterable[tuple[str, np.ndarray]],
    attributes: Mapping[str, np.ndarray] | None = None,
) -> None:
    """Writes arrays by name, one after the other, and replaces an existing file.

    Args:
        path: the file.
        shapes: shape of each array by name.
        arrays: name and value of each array.
        attributes: scalars to write as attributes of the file, see `read_attributes`.
    """
    size = _DTYPE.itemsize * sum(map(math.prod, shapes.values())) + _OVERHEAD * (len(shapes) + 1)
    with (
        replacing_own(path) as temporary,
        open(temporary, "w+b") as content,
        h5py.File(
            content, "w", alignment_threshold=_ALIGNED_BYTES, alignment_interval=_ALIGNMENT
        ) as file,
    ):
        # HDF5 ends the process if a write fails, so the disk space is reserved before.
        os.posix_fallocate(content.fileno(), 0, size)
        for name, array in arrays:
            file.create_dataset(name, data=array, dtype=_DTYPE)
        for name, value in (attributes or {}).items():
            file.attrs[name] = value


def write_model_weights(path: pathlib.Path, model: "keras.Model") -> None:
    """Writes the weights of a model by name, in float32, and replaces an existing file.

    LoRA is merged, see `models/lora.py`.
    """
    from tf_transformer.models.lora import base_weights, merged_values

    write_arrays(path, _shapes(base_weights(model)), merged_values(model))


def check_model_weights(model: "keras.Model", shapes: Shapes) -> None:
    """Checks that a model has these weights, and finite ones.

    Args:
        model: the model.
        shapes: shape of each weight by name.

    Raises:
        InputError: it has others, as a model that was loaded to decode, or they are not finite.
    """
    from tf_transformer.models.lora import base_weights

    weights = base_weights(model)
    if (found := _shapes(weights)) != shapes:
        name = min(name for name in {*found, *shapes} if found.get(name) != shapes.get(name))
        raise InputError(
            f"`model` must have the weights of its settings, {name} with the shape "
            f"{shapes.get(name)}. Received: {found.get(name)}. A model that was loaded to decode, "
            "such as that of a `Translator`, cannot be saved: use `load_model`"
        )
    for name, weight in weights.items():
        check_finite(name, np.asarray(weight, "float32"), "the model")


def model_digest(model: "keras.Model") -> str:
    """Returns the `digest_arrays` of a file of the model's weights, those of LoRA left out."""
    from tf_transformer.models.lora import base_weights

    weights = base_weights(model)
    return _digest(
        _shapes(weights), lambda name: [np.ascontiguousarray(weights[name].numpy(), _DTYPE)]
    )


def read_model_weights(
    path: pathlib.Path,
    model: "keras.Model",
    change: Change | None = None,
    but: str | None = None,
    *,
    mapped: bool = False,
) -> None:
    """Assigns the weights in a file to a model; those of LoRA stay.

    Args:
        path: the file.
        model: a model whose weights have the names and shapes of those in the file.
        change: function that changes the weights, such as `Adapter.added_to`; None leaves them.
        but: weights whose names begin with this are not in the file, and stay; None means none.
        mapped: whether large float32 weights that `change` leaves stay in the file, and take memory
            where they are used, as the rows of an embedding. The file must then stay as it is as
            long as the model exists: if it is cut off, the process ends.

    Raises:
        InputError: as `check_arrays`, or weights are not finite.
        FileNotFoundError: the file does not exist.
    """
    from tf_transformer.models.assignment import assign_parts, assign_shared
    from tf_transformer.models.lora import base_weights

    weights = base_weights(model)
    if but is not None:
        weights = {name: weight for name, weight in weights.items() if not name.startswith(but)}
    with _opened(path, _shapes(weights)) as file:
        for name, weight in weights.items():
            parts = _finite_parts(name, file[name], path)
            if mapped and change is None and weight.dtype == _DTYPE and _is_aligned(file[name]):
                for _ in parts:  # checks them
                    pass
                assign_shared(weight, _map(path, file[name]))
            else:
                assign_parts(weight, parts if change is None else change(name, parts))


def _finite_parts(name: str, stored: h5py.Dataset, path: pathlib.Path) -> Iterator[np.ndarray]:
    for part in _parts(stored):
        check_finite(name, part, path)
        yield part


def _is_aligned(stored: h5py.Dataset) -> bool:
    return stored.nbytes >= _ALIGNED_BYTES and stored.id.get_offset() % _ALIGNMENT == 0


def _map(path: pathlib.Path, stored: h5py.Dataset) -> np.ndarray:
    """Returns an array that is read where it is used; what is written to it stays in memory."""
    return np.asarray(np.memmap(path, _DTYPE, "c", stored.id.get_offset(), stored.shape))


def _parts(stored: h5py.Dataset) -> Iterator[np.ndarray]:
    """Reads an array in parts of about 64 MiB along its first axis."""
    rows = max(1, len(stored) * _PART_BYTES // max(stored.nbytes, 1))
    for start in range(0, len(stored), rows):
        yield stored[start : start + rows]


def _shapes(weights: "dict[str, keras.Variable]") -> Shapes:
    return {name: tuple(weight.shape) for name, weight in weights.items()}


def check_arrays(path: pathlib.Path, shapes: Shapes) -> None:
    """Checks that a file contains these arrays and nothing else, without reading them.

    Args:
        path: the file.
        shapes: shape of each array by name.

    Raises:
        InputError: a name, shape, type or storage layout is wrong, or the file is damaged.
        FileNotFoundError: the file does not exist.
    """
    with _opened(path, shapes):
        pass


def digest_arrays(path: pathlib.Path, shapes: Shapes) -> str:
    """Returns a digest of names and values, for the comparison of files.

    Args:
        path: the file.
        shapes: shape of each array by name.

    Raises:
        InputError: as `check_arrays`.
        FileNotFoundError: the file does not exist.
    """
    with _opened(path, shapes) as file:
        return _digest(shapes, lambda name: _parts(file[name]))


def _digest(shapes: Shapes, parts_of: Callable[[str], Iterable[np.ndarray]]) -> str:
    digest = hashlib.blake2b(digest_size=16)
    for name in sorted(shapes):
        digest.update(f"{name} {_DTYPE.str} {shapes[name]}\n".encode())
        for part in parts_of(name):
            digest.update(part.data)
    return digest.hexdigest()


def read_arrays(path: pathlib.Path, shapes: Shapes) -> Iterator[tuple[str, np.ndarray]]:
    """Checks a file, then yields the name and value of each array, in the order of `shapes`.

    Args:
        path: the file.
        shapes: shape of each array by name.

    Raises:
        InputError: as `check_arrays`.
        FileNotFoundError: the file does not exist.
    """
    with _opened(path, shapes) as file:
        for name in shapes:
            yield name, file[name][()]


def check_finite(
    name: str,
    array: np.ndarray,
    where: object,
    advice: str = "Training probably diverged. Use earlier weights",
) -> None:
    """Checks that all values of an array are finite.

    Args:
        name: name of the array, for the error message.
        array: the array.
        where: the file, for the error message.
        advice: the end of the error message.

    Raises:
        NotFiniteError: a value is NaN or infinite.
    """
    num_invalid = array.size - np.count_nonzero(np.isfinite(array))
    if num_invalid:
        raise NotFiniteError(
            f"{where}: {num_invalid:,} of the {array.size:,} numbers in {name} are NaN or "
            f"infinite; expected finite weights. {advice}"
        )


def present_shapes(path: pathlib.Path, names: Iterable[str]) -> Shapes:
    """Returns the shapes of the arrays in a file, without reading them.

    Args:
        path: the file.
        names: the names that the file may contain; it may lack some.

    Raises:
        InputError: it contains another name or a link, or the file is damaged.
        FileNotFoundError: the file does not exist.
    """
    with _reading(path) as file:
        return {
            name: item.shape or ()
            for name, item in _items(file, set(names))
            if isinstance(item, h5py.Dataset)
        }


def read_attributes(path: pathlib.Path, dtypes: Mapping[str, np.dtype]) -> dict[str, Any]:
    """Reads the attributes of a file, scalars of a fixed size, after a check of names and types.

    Args:
        path: the file.
        dtypes: type of each attribute by name.

    Returns:
        The values by name; the dictionary is empty if the file has no attributes.

    Raises:
        InputError: another attribute or type is found, one is missing, or the file is damaged.
        FileNotFoundError: the file does not exist.
    """
    with _reading(path) as file:
        if len(file.attrs) == 0:
            return {}
        for name in file.attrs:
            if name not in dtypes:
                raise InputError(f"the attribute {name!r} is unknown")
        for name, dtype in dtypes.items():
            found = file.attrs.get_id(name)  # a missing name raises KeyError
            if found.dtype != dtype or found.shape != ():
                raise InputError(
                    f"the attribute {name} has the type {found.dtype} and the shape {found.shape}, "
                    f"not {dtype} and ()"
                )
        return {name: file.attrs[name] for name in dtypes}


@contextlib.contextmanager
def _reading(path: pathlib.Path) -> Iterator[h5py.File]:
    regular_size(path)
    try:
        with h5py.File(path, "r") as file:
            yield file
    except NotFiniteError:
        raise
    except (OSError, ValueError, TypeError, LookupError, RuntimeError) as error:
        reason = " ".join(str(error).split())[:200]
        raise InputError(f"{path}: damaged, or of another model ({reason})") from error


@contextlib.contextmanager
def _opened(path: pathlib.Path, shapes: Shapes) -> Iterator[h5py.File]:
    with _reading(path) as file:
        _check(file, shapes)
        expected, size = _DTYPE.itemsize * sum(map(math.prod, shapes.values())), regular_size(path)
        if size < expected:  # several names could refer to the same bytes
            raise InputError(f"the weights need {expected:,} bytes, the file has {size:,}")
        if 2 * (stored := stored_bytes(path)) < expected:
            raise InputError(f"the weights need {expected:,} bytes, the file stores {stored:,}")
        yield file


def _check(file: h5py.File, shapes: Shapes) -> None:
    """Checks that the file's datasets have these shapes."""
    missing = set(shapes)
    for name, item in _items(file, set(shapes)):
        _check_dataset(name, item, shapes[name])
        missing.remove(name)
    if missing:
        raise InputError(f"{min(missing)} is missing")


def _items(file: h5py.File, names: Set[str]) -> Iterator[tuple[str, object]]:
    """Yields what these names refer to in a file that contains no others.

    Visits expected groups only: links could form cycles.
    """
    groups = {name[:end] for name in names for end, char in enumerate(name) if char == "/"}
    to_visit = [""]
    for group in to_visit:
        for key in file[f"/{group}"]:
            name = f"{group}/{key}" if group else key
            if name not in names and name not in groups:
                raise InputError(f"{name!r} is not in this model")
            if not isinstance(file.get(name, getlink=True), h5py.HardLink):
                raise InputError(f"{name} is a link to another name or file")
            if name in groups:
                to_visit.append(name)
            else:
                yield name, file[name]


def _check_dataset(name: str, item: object, shape: tuple[int, ...]) -> None:
    if not isinstance(item, h5py.Dataset):
        raise InputError(f"{name} is not an array")
    if item.shape != shape:
        raise InputError(f"{name} has the shape {item.shape}, not {shape}")
    if item.dtype != _DTYPE:
        raise InputError(f"{name} has the type {item.dtype}, not {_DTYPE}")
    if item.id.get_offset() is None:  # in chunks, in another file, or not stored at all
        raise InputError(f"{name} is compressed, incomplete or in another file")
