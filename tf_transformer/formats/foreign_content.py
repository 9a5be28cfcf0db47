"""What a file is that is not a model, by its first bytes."""

# The first bytes of a file that decide.
NUM_BYTES = 64
# The first bytes of files that are often mistaken for models, and what to do.
_HINTS = (
    (b"version https://git-lfs", "a pointer of Git LFS in place of the file; run: git lfs pull"),
    (b"\x1f\x8b", "compressed by gzip; unpack it first"),
    (b"BZh", "compressed by bzip2; unpack it first"),
    (b"\xfd7zXZ\x00", "compressed by xz; unpack it first"),
    (b"<!doctype html", "a web page, perhaps the error of a download"),
    (b"<html", "a web page, perhaps the error of a download"),
)


def describe(content: bytes) -> str:
    """Returns what a file is instead of a model, empty if that is not known.

    Args:
        content: the file, or its beginning.
    """
    begin = content[:NUM_BYTES].lstrip().lower()
    return next((hint for mark, hint in _HINTS if begin.startswith(mark.lower())), "")
