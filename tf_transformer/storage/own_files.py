"""Writing and removing files in folders of untrusted content, without following symbolic links.

A symbolic link in such a folder could point to any file of the user, so a command must not write,
replace or remove anything through one. The folder itself may be a link, and so may files that are
only read.
"""

import contextlib
import os
import pathlib
import shutil
import stat
from collections.abc import Iterator

from tf_transformer.errors import InputError
from tf_transformer.storage.files import replacing
from tf_transformer.storage.regular_files import regular_size


def check_own_file(path: pathlib.Path) -> None:
    """Checks that a path is a regular file or does not exist.

    Raises:
        InputError: it is a symbolic link, a folder, a pipe, a socket or a device.
    """
    _refuse_link(path)
    with contextlib.suppress(FileNotFoundError):
        regular_size(path)


def check_own_folder(path: pathlib.Path) -> None:
    """Checks that a path is a folder of regular files and folders, or does not exist.

    Raises:
        InputError: it is not a folder, or it is or contains a symbolic link, a pipe, a socket or a
            device.
    """
    _refuse_link(path)
    if not os.path.lexists(path):
        return
    if not path.is_dir():
        raise InputError(f"{path}: expected a folder")
    for folder, subfolders, files in os.walk(path):
        for name in subfolders:
            _refuse_link(pathlib.Path(folder, name))
        for name in files:
            check_own_file(pathlib.Path(folder, name))


@contextlib.contextmanager
def replacing_own(path: pathlib.Path) -> Iterator[pathlib.Path]:
    """Replaces a file as `replacing` does, without following symbolic links.

    Raises:
        InputError: as `check_own_file`.
        OSError: as `replacing`.
    """
    check_own_file(path)
    with replacing(path) as temporary:
        yield temporary


def make_own_folder(path: pathlib.Path) -> None:
    """Creates a folder and its parents, unless it exists.

    Raises:
        InputError: it is a symbolic link.
        OSError: it cannot be created.
    """
    _refuse_link(path)
    path.mkdir(parents=True, exist_ok=True)


@contextlib.contextmanager
def temporary_own_folder(path: pathlib.Path) -> Iterator[pathlib.Path]:
    """Creates an empty folder and removes it at the end, and at the begin one that was left over.

    Raises:
        InputError: there is a symbolic link of that name.
        OSError: it cannot be created.
    """
    _refuse_link(path)
    shutil.rmtree(path, ignore_errors=True)
    path.mkdir()
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


def _refuse_link(path: pathlib.Path) -> None:
    try:
        is_link = stat.S_ISLNK(path.lstat().st_mode)
    except (FileNotFoundError, NotADirectoryError):
        return
    if is_link:
        raise InputError(
            f"{path}: expected a file or folder, got a symbolic link to {os.readlink(path)!r}, "
            "which commands do not write to. Remove it, or replace it by a copy"
        )
