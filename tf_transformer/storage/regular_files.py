"""Files that came from elsewhere: regular ones of a limited size, or none."""

import errno
import os
import pathlib
import stat

from tf_transformer.errors import InputError


def regular_size(path: pathlib.Path) -> int:
    """Returns the size of a regular file, in bytes.

    A pipe, which would be waited for, a device, a socket and a folder are none; a symbolic link
    stands for what it leads to.

    Raises:
        ValueError: it is no regular file.
        FileNotFoundError: there is nothing.
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
    """Refuses what is no regular file, or a larger one than `max_bytes`.

    Raises:
        ValueError: it is such a file.
        FileNotFoundError: there is nothing.
    """
    size = regular_size(path)
    if size > max_bytes:
        raise InputError(f"{path}: expected at most {max_bytes:,} bytes, got {size:,}")


def stored_bytes(path: pathlib.Path) -> int:
    """Returns how many bytes of a regular file the disk holds.

    The others are holes, which read as zeros: a file can be much larger than the place it takes.
    Where a file system does not tell, it is the whole file.
    """
    with open(path, "rb") as file:
        size, place, stored = os.fstat(file.fileno()).st_size, 0, 0
        try:
            while place < size:
                begin = os.lseek(file.fileno(), place, os.SEEK_DATA)
                place = os.lseek(file.fileno(), begin, os.SEEK_HOLE)
                stored += place - begin
        except OSError as error:
            if error.errno != errno.ENXIO:  # a hole up to the end
                return size
    return stored


def read_regular(path: pathlib.Path, max_bytes: int) -> bytes:
    """Reads a file that passes `check_regular`."""
    check_regular(path, max_bytes)
    return path.read_bytes()
