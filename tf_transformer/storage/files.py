"""Files that appear whole or not at all."""

import contextlib
import fcntl
import os
import pathlib
import re
import shutil
import stat
import tempfile
from collections.abc import Iterator

from tf_transformer.errors import InputError

_PREFIX = ".writing-"
_NAME = re.compile(rf"{re.escape(_PREFIX)}([0-9]{{1,9}})(\..*)?", re.DOTALL)


@contextlib.contextmanager
def naming(name: object) -> Iterator[None]:
    """Names the file in errors of the operating system that do not, as those of writing.

    Raises:
        OSError: as the body does, with `name` as its `filename` where it had none.
    """
    try:
        yield
    except OSError as error:
        if error.errno is None or error.filename is not None:
            raise
        raise OSError(error.errno, error.strerror, str(name)) from error


@contextlib.contextmanager
def replacing(path: pathlib.Path) -> Iterator[pathlib.Path]:
    """Gives a path beside `path` to write to, and renames it to `path` if all went well.

    A symbolic link is followed. What is no regular file, such as a pipe or a device, is written to
    as it is.

    Raises:
        OSError: as writing does, with the name of `path`; a former file is as it was.
    """
    with naming(path):
        if path.exists() and not path.is_file():
            yield path
            return
        real = pathlib.Path(os.path.realpath(path))
        temporary = real.with_name(f"{_PREFIX}{os.getpid()}.{real.name}")
        try:
            yield temporary
            bring_to_disk(temporary)  # before its name: power may fail between the two
            os.replace(temporary, real)
        except OSError as error:
            if error.filename == str(temporary):
                raise OSError(error.errno, error.strerror, str(path)) from error
            raise
        finally:
            temporary.unlink(missing_ok=True)


def bring_to_disk(path: pathlib.Path) -> None:
    """Waits until a file's bytes are on the disk."""
    with open(path, "rb") as file:
        os.fsync(file.fileno())


@contextlib.contextmanager
def locked(folder: pathlib.Path, purpose: str) -> Iterator[None]:
    """Keeps a folder from other processes that lock it too, where the file system has locks.

    Args:
        folder: that is there.
        purpose: what this process does, for the message to another.

    Raises:
        ValueError: another process has it.
    """
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise InputError(f"{folder}: another process is {purpose}") from error
        except OSError:  # no locks here
            pass
        yield
    finally:
        os.close(descriptor)


def check_writable(path: pathlib.Path) -> None:
    """Refuses what `replacing` could not write, before any work is done.

    Raises:
        OSError: the folder is missing or not writable, `path` is a folder, or a symbolic link that
            leads to itself.
    """
    folder = pathlib.Path(os.path.realpath(path)).parent
    try:
        mode = os.stat(path).st_mode
    except FileNotFoundError:
        if not folder.is_dir():
            raise FileNotFoundError(f"{path}: there is no folder {folder}") from None
        places = [folder]
    else:
        if stat.S_ISDIR(mode):
            raise IsADirectoryError(f"{path}: is a directory")
        places = [path, folder] if stat.S_ISREG(mode) else [path]
    if not all(os.access(place, os.W_OK) for place in places):
        raise PermissionError(f"{path}: not writable")


def check_folder(path: pathlib.Path) -> None:
    """Refuses a folder that cannot be made or written in, before any work is done.

    Raises:
        OSError: `path`, or what it lies in, is no folder or not writable.
    """
    while not os.path.lexists(path):
        path = path.parent
    if not path.is_dir():
        raise NotADirectoryError(f"{path}: expected a folder")
    if not os.access(path, os.W_OK):
        raise PermissionError(f"{path}: not writable")
    try:  # what the permissions promise, and file systems such as /proc do not keep
        os.rmdir(tempfile.mkdtemp(prefix=_PREFIX, dir=path))
    except OSError as error:
        raise OSError(f"{path}: no folder can be made there ({error.strerror})") from error


def is_found_by_tensorflow(path: str | pathlib.Path) -> bool:
    """Whether TensorFlow can read variables there: it takes the name for a pattern first."""
    return not set("[\\") & set(str(path))


def remove_leftovers(directory: pathlib.Path) -> None:
    """Removes what processes that were killed while writing have left in a folder."""
    for path in directory.glob(f"{_PREFIX}*"):
        match = _NAME.fullmatch(path.name)
        if match and not _is_running(int(match[1])):
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink(missing_ok=True)


def _is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:  # another user's
        return True
    return True
