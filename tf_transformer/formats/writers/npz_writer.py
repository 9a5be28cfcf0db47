"""Writing of NumPy's .npz archives, one array after the other."""

import pathlib
import zipfile
from collections.abc import Iterable

import numpy as np

from tf_transformer.storage.files import replacing


def write_npz(path: pathlib.Path, arrays: Iterable[tuple[str, np.ndarray]]) -> None:
    """Writes arrays without compression, in C order, and replaces an existing file.

    Args:
        path: the file.
        arrays: name and value of each array.
    """
    with replacing(path) as temporary, zipfile.ZipFile(temporary, "w") as archive:
        for name, array in arrays:
            # `ZipInfo` has a fixed date, so that equal arrays give equal files.
            member = zipfile.ZipInfo(f"{name}.npy")
            with archive.open(member, "w", force_zip64=True) as file:
                np.lib.format.write_array(
                    file, np.ascontiguousarray(array), version=(1, 0), allow_pickle=False
                )
