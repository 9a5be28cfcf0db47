"""Atomic writes, locks, and checks that a path is writable."""

import contextlib
import fcntl
import os
import pathlib
import re
import secrets
import shutil
import stat
import tempfile
from collections.abc import Callable, Iterator

from tf_transformer.errors import InputError

TEMPORARY_PREFIX = ".writing-"
_NAME = re.compile(rf"{re.escape(TEMPORARY_PREFIX)}([0-9]{{1,9}})(\..*)?", re.DOTALL)


@contextlib.contextmanager
def name_in_errors(name: object) -> Iterator[None]:
    """Adds a file name to operating system errors that have none, such as those of writing.

    Raises:
        OSError: as the body of the `with` statement, with `name` as its `filename` if it had none.
    """
    try:
        yield
    except OSError as error:
        if error.errno is None or error.filename is not None:
            raise
        raise OSError(error.errno, error.strerror, str(name)) from error


@contextlib.contextmanager
def replacing(path: pathlib.Path) -> Iterator[pathlib.Path]:
    """Replaces a file atomically: yields a temporary path to write, then renames it to `path`.

    Symbolic links are followed. Pipes and devices are written directly.

    Raises:
        OSError: writing failed, with the name of `path`; an existing file is unchanged.
    """
    with name_in_errors(path):
        if path.exists() and not path.is_file():
            yield path
            return
        real = pathlib.Path(os.path.realpath(path))
        # Processes of two machines can have the same number.
        unique = f"{os.getpid()}.{secrets.token_hex(4)}"
        temporary = real.with_name(f"{TEMPORARY_PREFIX}{unique}.{real.name}")
        try:
            yield temporary
            sync_to_disk(temporary)  # before the rename, in case of a power failure
            os.replace(temporary, real)
        except OSError as error:
            if error.filename == str(temporary):
                raise OSError(error.errno, error.strerror, str(path)) from error
            raise
        finally:
            temporary.unlink(missing_ok=True)


def sync_to_disk(path: pathlib.Path) -> None:
    """Waits until a file's bytes are written to disk."""
    with open(path, "rb") as file:
        os.fsync(file.fileno())


def link_or_copy(path: pathlib.Path, copy: pathlib.Path) -> None:
    """Makes a hard link to a file, or copies it if the file system does not support hard links.

    Raises:
        OSError: neither is possible, or `copy` exists and the file system supports hard links.
    """
    try:
        os.link(path, copy)
    except FileExistsError:
        raise
    except OSError:  # another disk, or a file system without hard links
        shutil.copyfile(path, copy)


@contextlib.contextmanager
def locked(
    folder: pathlib.Path, purpose: str, before_waiting: Callable[[str], None] | None = None
) -> Iterator[bool]:
    """Locks a folder against other calls of this function, if the file system supports locks.

    Args:
        folder: an existing folder.
        purpose: what the process does, for the message.
        before_waiting: called with a message before this process waits for another one that holds
            the lock; None raises an error instead of waiting.

    Yields:
        Whether the folder is locked; False if the file system does not support locks.

    Raises:
        InputError: another process holds the lock, and `before_waiting` is None.
    """
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        yield _lock(descriptor, f"{folder}: another process is {purpose}", before_waiting)
    finally:
        os.close(descriptor)


def _lock(descriptor, message, before_waiting):
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            if before_waiting is None:
                raise InputError(message) from error
            before_waiting(message)
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        return True
    except OSError:  # the file system has no locks
        return False


def check_writable(path: pathlib.Path) -> None:
    """Checks that `replacing` can write a file, before any work is done.

    Raises:
        OSError: the folder is missing or not writable, or `path` is a folder or a symbolic link to
            itself.
    """
    folder = pathlib.Path(os.path.realpath(path)).parent
    try:
        mode = os.stat(path).st_mode
    except FileNotFoundError:
        if not folder.is_dir():
            raise FileNotFoundError(f"{path}: there is no folder {folder}") from None
        to_write = [folder]
    else:
        if stat.S_ISDIR(mode):
            raise IsADirectoryError(f"{path}: is a directory")
        to_write = [path, folder] if stat.S_ISREG(mode) else [path]
    if not all(os.access(item, os.W_OK) for item in to_write):
        raise PermissionError(f"{path}: not writable")


def check_folder(path: pathlib.Path) -> None:
    """Checks that a folder can be created or written to, before any work is done.

    Raises:
        OSError: `path`, or its closest existing parent, is no folder or not writable.
    """
    while not os.path.lexists(path):
        path = path.parent
    if not path.is_dir():
        raise NotADirectoryError(f"{path}: expected a folder")
    if not os.access(path, os.W_OK):
        raise PermissionError(f"{path}: not writable")
    try:  # file systems such as /proc refuse this although the permissions allow it
        os.rmdir(tempfile.mkdtemp(prefix=TEMPORARY_PREFIX, dir=path))
    except OSError as error:
        raise OSError(f"{path}: cannot create a folder there ({error.strerror})") from error


def is_found_by_tensorflow(path: str | pathlib.Path) -> bool:
    """Returns whether TensorFlow can read variables from a path, which it treats as a pattern."""
    return not set("[\\") & set(str(path))


def remove_leftovers(directory: pathlib.Path) -> None:
    """Removes temporary files of `replacing` whose processes were killed."""
    for path in directory.glob(f"{TEMPORARY_PREFIX}*"):
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
    except PermissionError:  # a process of another user
        return True
    return True
