"""Weights in an HDF5 file: one dataset each by its name, checked before it is read.

The file is as large as the numbers in it: float32, side by side, neither compressed nor elsewhere,
and at least half of them on the disk and not in holes. So what takes little place cannot ask for
much memory, and no dataset can lead into another file.
"""

import contextlib
import io
import math
import pathlib
from collections.abc import Iterator, Mapping

import h5py
import numpy as np

from tf_transformer.errors import InputError
from tf_transformer.storage.own_files import replacing_own
from tf_transformer.storage.regular_files import regular_size, stored_bytes
from tf_transformer.storage.weight_shapes import Shapes

_DTYPE = np.dtype("float32")


def write_arrays(path: pathlib.Path, arrays: Mapping[str, np.ndarray]) -> None:
    """Writes arrays by their names, in place of a former file.

    HDF5 ends the process when a disk is full, so it writes to memory.
    """
    content = io.BytesIO()
    with h5py.File(content, "w") as file:
        for name, array in arrays.items():
            file.create_dataset(name, data=array)
    with replacing_own(path) as temporary:
        temporary.write_bytes(content.getbuffer())


def check_arrays(path: pathlib.Path, shapes: Shapes) -> None:
    """Checks that a file holds these arrays and nothing else, without reading them.

    Raises:
        ValueError: a name, a shape, a type or how it is stored is another, or the file is damaged.
        FileNotFoundError: there is no such file.
    """
    with _opened(path, shapes):
        pass


def read_arrays(path: pathlib.Path, shapes: Shapes) -> Iterator[tuple[str, np.ndarray]]:
    """Reads a file's arrays one by one, with their names, in the order of `shapes`.

    Raises:
        ValueError: as `check_arrays`.
        FileNotFoundError: there is no such file.
    """
    with _opened(path, shapes) as file:
        for name in shapes:
            yield name, file[name][()]


def check_finite(name: str, array: np.ndarray, where: object) -> None:
    """Refuses NaN and infinity, with which a model computes nothing.

    Raises:
        ValueError: the array holds some.
    """
    number = array.size - np.count_nonzero(np.isfinite(array))
    if number:
        raise InputError(
            f"{where}: {number:,} of the {array.size:,} numbers in {name} are NaN or infinite, "
            "as after a training that diverged; expected finite ones. Take earlier weights"
        )


@contextlib.contextmanager
def _opened(path: pathlib.Path, shapes: Shapes) -> Iterator[h5py.File]:
    size = regular_size(path)
    try:
        with h5py.File(path, "r") as file:
            _check(file, shapes)
            expected = _DTYPE.itemsize * sum(map(math.prod, shapes.values()))
            if size < expected:  # several names may stand for one place
                raise InputError(f"the weights need {expected:,} bytes, the file has {size:,}")
            if 2 * (stored := stored_bytes(path)) < expected:
                raise InputError(f"the weights need {expected:,} bytes, the file stores {stored:,}")
            yield file
    except (OSError, ValueError, TypeError, LookupError, RuntimeError) as error:
        reason = " ".join(str(error).split())[:200]
        raise InputError(f"{path}: damaged, or of another model ({reason})") from error


def _check(file: h5py.File, shapes: Shapes) -> None:
    """Goes down into expected groups alone: links may lead round in circles, or elsewhere."""
    groups = {name[:end] for name in shapes for end, sign in enumerate(name) if sign == "/"}
    folders, missing = [""], set(shapes)
    for folder in folders:
        for key in file[f"/{folder}"]:
            name = f"{folder}/{key}" if folder else key
            if name not in shapes and name not in groups:
                raise InputError(f"{name!r} is not in this model")
            if not isinstance(file.get(name, getlink=True), h5py.HardLink):
                raise InputError(f"{name} is a link to elsewhere")
            if name in groups:
                folders.append(name)
            else:
                _check_dataset(name, file[name], shapes[name])
                missing.remove(name)
    if missing:
        raise InputError(f"{min(missing)} is missing")


def _check_dataset(name: str, item: object, shape: tuple[int, ...]) -> None:
    if not isinstance(item, h5py.Dataset):
        raise InputError(f"{name} is no array")
    if item.shape != shape:
        raise InputError(f"{name} has the shape {item.shape}, not {shape}")
    if item.dtype != _DTYPE:
        raise InputError(f"{name} has the type {item.dtype}, not {_DTYPE}")
    if item.id.get_offset() is None:  # in chunks, in another file, or nowhere
        raise InputError(f"{name} is compressed, incomplete or elsewhere")
