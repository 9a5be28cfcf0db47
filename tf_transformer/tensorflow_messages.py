"""TensorFlow's messages on standard error, as far as `TF_CPP_MIN_LOG_LEVEL` lets them through.

TensorFlow writes ten lines as it starts, one of them an error, to say that there is no GPU. If this
package is imported before it and nobody has set the level, the level becomes

- 3, which hides messages, warnings and errors, on a machine without NVIDIA's driver. Errors that
  matter are exceptions of Python; what the log calls errors there is mainly the missing GPU.
- 1, which hides messages only, on a machine with the driver: warnings and errors are where
  TensorFlow says why it does not use a GPU.

TensorFlow reads the level after it has written its first lines, so these are held back here. Set
`TF_CPP_MIN_LOG_LEVEL=0` to see everything, for example if TensorFlow ends the process while it is
imported.
"""

import contextlib
import os
import re
import sys
from collections.abc import Iterator
from typing import IO

from tf_transformer.import_hook import wrap_import

LEVEL = "TF_CPP_MIN_LOG_LEVEL"
# Files of NVIDIA's driver, on Linux and in Windows' subsystem for Linux.
_DRIVER = ("/dev/nvidiactl", "/dev/dxg")
# The modules that load C++ code which writes before it reads the level.
_LIBRARIES = ("tensorflow", "tensorflow_text")
# "I0000 00:00:1795753391.548626    6359 cudart_stub.cc:31] ", the same with a date in older
# versions, and TensorFlow Lite's "INFO: ".
_LINE = re.compile(
    rb"([IWEF])\d{4} [\d:.]+\s+\d+ \S+:\d+\] "
    rb"|\d{4}-\d\d-\d\d [\d:.]+: ([IWEF]) \S+:\d+\] "
    rb"|(INFO|WARNING|ERROR): "
)
_SEVERITIES = b"IWEF"

# The level that this module has set, if any.
_own_level: str | None = None


def hide_messages(level: str | None = None) -> None:
    """Sets the level unless the user has, and holds back the messages of TensorFlow's import.

    Without effect once TensorFlow has been imported.

    Args:
        level: the level; None decides by whether the machine has NVIDIA's driver.
    """
    global _own_level
    if "tensorflow" in sys.modules:
        return
    if os.environ.get(LEVEL) in (None, _own_level):
        _own_level = level or ("1" if any(map(os.path.exists, _DRIVER)) else "3")
        os.environ[LEVEL] = _own_level
    for library in _LIBRARIES:
        wrap_import(library, messages_filtered)


@contextlib.contextmanager
def messages_filtered() -> Iterator[None]:
    """Keeps what is written to standard error until the end, and then drops what the level hides.

    It redirects the file descriptor, as C++ writes to it. Lines in other formats, such as warnings
    of Python or what other threads write, appear a little later.
    """
    level = _level()
    held = _redirect() if level else None
    if held is None:
        yield
        return
    try:
        yield
    finally:
        for line in _restore(*held):
            if not _is_hidden(line, level):
                os.write(2, line)


def _level() -> int:
    level = os.environ.get(LEVEL, "0")
    return int(level) if level.isascii() and level.isdigit() else 0


def _redirect() -> tuple[int, IO[bytes]] | None:
    """Redirects standard error to a file; None if it is closed or there is no place for a file."""
    try:
        kept = os.dup(2)
    except OSError:
        return None
    try:
        file = _open_file()
    except OSError:
        os.close(kept)
        return None
    _flush()
    os.dup2(file.fileno(), 2)
    return kept, file


def _open_file() -> IO[bytes]:
    if hasattr(os, "memfd_create"):
        return os.fdopen(os.memfd_create("messages"), "w+b")
    import tempfile  # takes longer to import than the rest

    return tempfile.TemporaryFile()


def _restore(kept: int, file: IO[bytes]) -> list[bytes]:
    """Undoes `_redirect`, and returns the lines that were written."""
    _flush()
    os.dup2(kept, 2)
    os.close(kept)
    with file:
        file.seek(0)
        return file.readlines()


def _flush():
    with contextlib.suppress(OSError, ValueError, AttributeError):  # closed, or None
        sys.stderr.flush()


def _is_hidden(line: bytes, level: int) -> bool:
    found = _LINE.match(line)
    if found is None:
        return False
    severity = next(filter(None, found.groups()))[:1]
    # It announces the lines that come before the level is read.
    return b"before absl::InitializeLog()" in line or _SEVERITIES.index(severity) < level
