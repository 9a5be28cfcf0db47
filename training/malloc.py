"""Settings of glibc's memory allocator for training."""

import ctypes
import sys

# Parameters of mallopt(3).
_TRIM_THRESHOLD, _TOP_PAD, _MMAP_MAX, _ARENA_MAX = -1, -2, -4, -8


def keep_freed_memory() -> None:
    """Configures malloc to reuse freed memory instead of returning it to the system.

    The activations of a step are gigabytes in arrays that glibc would map anew each time, and the
    system zeros every page it maps. Reusing freed memory reduced the time of a step by 4 to 10 %
    and raised peak memory by 1 %. A no-op where malloc is not glibc's. Call it before TensorFlow
    starts its threads.
    """
    if not sys.platform.startswith("linux"):
        return
    try:
        mallopt = ctypes.CDLL("libc.so.6").mallopt
    except (OSError, AttributeError):
        return
    mallopt(_MMAP_MAX, 0)
    mallopt(_TRIM_THRESHOLD, -1)  # never
    mallopt(_TOP_PAD, 2**26)
    mallopt(_ARENA_MAX, 1)
