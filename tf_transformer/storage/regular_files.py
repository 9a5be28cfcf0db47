"""Checks of untrusted files: they must be regular files of a limited size."""

import errno
import os
import pathlib
import stat

from tf_transformer.errors import InputError


def regular_size(path: pathlib.Path) -> int:
    """Returns the size of a regular file, in bytes. Symbolic links are followed.

    Raises:
        InputError: it is a folder, a pipe, a socket or a device; reading a pipe could wait forever.
        FileNotFoundError: the file does not exist.
    """
    status = path.stat()
    if not stat.S_ISREG(status.st_mode):
        raise InputError(f"{path}: expected a regular file, got {_kind(status.st_mode)}")
    return status.st_size


def _kind(mode: int) -> str:
    if stat.S_ISDIR(mode):
        return "a folder"
    if stat.S_ISFIFO(mode):
        return "a pipe"
    return "a socket" if stat.S_ISSOCK(mode) else "a device"


def check_regular(path: pathlib.Path, max_bytes: int) -> None:
    """Checks that a file is regular and not too large.

    Args:
        path: the file.
        max_bytes: maximum size.

    Raises:
        InputError: it is not a regular file, or larger than `max_bytes`.
        FileNotFoundError: the file does not exist.
    """
    size = regular_size(path)
    if size > max_bytes:
        raise InputError(f"{path}: expected at most {max_bytes:,} bytes, got {size:,}")


def stored_bytes(path: pathlib.Path) -> int:
    """Returns the number of bytes of a sparse file that are stored on disk.

    The other bytes are holes, which read as zeros, so a file can be much larger than its disk
    space. If the file system does not report holes, this is the size of the file.
    """
    with open(path, "rb") as file:
        size, offset, stored = os.fstat(file.fileno()).st_size, 0, 0
        try:
            while offset < size:
                begin = os.lseek(file.fileno(), offset, os.SEEK_DATA)
                offset = os.lseek(file.fileno(), begin, os.SEEK_HOLE)
                stored += offset - begin
        except OSError as error:
            if error.errno != errno.ENXIO:  # which means a hole up to the end of the file
                return size
    return stored


def read_regular(path: pathlib.Path, max_bytes: int) -> bytes:
    """Reads a file that passes `check_regular`."""
    check_regular(path, max_bytes)
    return path.read_bytes()
