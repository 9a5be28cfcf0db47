"""Files that a command writes or removes in a folder that may have come from elsewhere.

A symbolic link in such a folder may lead to any other file of the user. So nothing is written,
replaced or removed through one: it is refused by its name. The folder itself may be a link, and
what is only read may be one.
"""

import contextlib
import os
import pathlib
import stat
from collections.abc import Iterator

from tf_transformer.errors import InputError
from tf_transformer.storage.files import replacing
from tf_transformer.storage.regular_files import regular_size


def check_own_file(path: pathlib.Path) -> None:
    """Refuses a place that a command must not write to; a regular file there, or nothing, is fine.

    Raises:
        ValueError: it is a symbolic link, a folder, a pipe or a device.
    """
    _refuse_link(path)
    with contextlib.suppress(FileNotFoundError):
        regular_size(path)


def check_own_folder(path: pathlib.Path) -> None:
    """Refuses a folder that a command must not write in, with all that lies below it.

    Raises:
        ValueError: it is, or holds, a symbolic link, a pipe or a device; or it is no folder.
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
    """Replaces a file as `replacing` does, and follows no link.

    Raises:
        ValueError: as `check_own_file`.
        OSError: as `replacing`.
    """
    check_own_file(path)
    with replacing(path) as temporary:
        yield temporary


def make_own_folder(path: pathlib.Path) -> None:
    """Makes a folder, with those above it, unless it is there.

    Raises:
        ValueError: it is a symbolic link.
        OSError: it cannot be made.
    """
    _refuse_link(path)
    path.mkdir(parents=True, exist_ok=True)


def _refuse_link(path: pathlib.Path) -> None:
    try:
        is_link = stat.S_ISLNK(path.lstat().st_mode)
    except (FileNotFoundError, NotADirectoryError):
        return
    if is_link:
        raise InputError(
            f"{path}: expected a file or folder of its own, got a symbolic link to "
            f"{os.readlink(path)!r}; nothing is written through it. Remove it, or put a copy there"
        )
