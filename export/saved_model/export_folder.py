"""Names of folders that SavedModels can be written to and loaded from."""

import os
import pathlib

from tf_transformer.errors import InputError
from tf_transformer.storage.files import is_found_by_tensorflow


def check_export_folder(path: pathlib.Path) -> None:
    """Checks that SavedModels can be written to and loaded from a folder of this name.

    Raises:
        InputError: TensorFlow cannot load files from it, or its whole path is not UTF-8.
    """
    if not is_found_by_tensorflow(path):
        raise InputError(
            f"{path}: TensorFlow cannot load files from a folder with [ or \\ in its name"
        )
    real = os.path.realpath(path)
    try:
        real.encode()
    except UnicodeEncodeError as error:
        raise InputError(
            f"{path}: expected a folder whose whole path is in UTF-8, got {real!r}"
        ) from error
