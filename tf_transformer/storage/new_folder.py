"""Folders that appear under their name when they are complete."""

import contextlib
import os
import pathlib
import secrets
import shutil
from collections.abc import Iterator

from tf_transformer.errors import InputError
from tf_transformer.storage.files import TEMPORARY_PREFIX, check_folder


def check_new_folder(path: pathlib.Path) -> None:
    """Checks that a folder can be created, and does not exist unless it is empty.

    Raises:
        InputError: it contains files, or is a link.
        OSError: it cannot be created.
    """
    check_folder(path)
    if path.is_symlink() or (path.exists() and any(path.iterdir())):
        raise InputError(f"{path}: expected a new or empty folder")


@contextlib.contextmanager
def new_folder(path: pathlib.Path) -> Iterator[pathlib.Path]:
    """Yields a temporary folder, which then gets the name `path`; an error removes it.

    Args:
        path: a path for which `check_new_folder` passes.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f"{TEMPORARY_PREFIX}{os.getpid()}.{secrets.token_hex(8)}")
    temporary.mkdir()
    try:
        yield temporary
        os.replace(temporary, path)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
