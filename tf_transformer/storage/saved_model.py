"""Writes SavedModels."""

import errno
import os
import pathlib
import re
from collections.abc import Callable

import tensorflow as tf

# The part of TensorFlow's error messages that names the failed operation.
_OPERATION = re.compile(r"\{\{\w+ [^{}]*\}\}\s*| \[Op.*", re.DOTALL)


def write_saved_model(
    module: tf.Module, folder: pathlib.Path, signatures: dict[str, Callable]
) -> None:
    """Saves a module and its functions.

    Args:
        module: holds the variables of the functions.
        folder: a new or empty folder.
        signatures: concrete functions by name.

    Raises:
        OSError: writing failed, as on a full disk.
    """
    try:
        tf.saved_model.save(module, os.fspath(folder), signatures=signatures)
    except tf.errors.OpError as error:
        reason = _OPERATION.sub("", error.message)
        raise OSError(errno.EIO, reason, str(folder.parent)) from error
