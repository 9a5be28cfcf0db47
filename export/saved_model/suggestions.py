"""Files that an export suggests to an operator: updated until somebody edits them, and then kept.

Such a file has a mark with the digest of the rest of it, so that any edit shows.
"""

import hashlib
import pathlib
import re

from tf_transformer.storage.files import replacing

MARK = "written by tf-transformer export"

_BEFORE_DIGEST = "; an edited file is kept; digest "
_DIGEST = re.compile(rf"{MARK}({_BEFORE_DIGEST}[0-9a-f]{{32}})".encode())


def write_suggestion(path: pathlib.Path, text: str, former: str | None = None) -> None:
    """Writes a file, in place of a former one that is as an export wrote it.

    Another one stays, and the text goes beside it, under its name and `.new`. If a file of that
    name has been edited too, both stay.

    Args:
        path: of the file.
        text: with `MARK` in a comment.
        former: what was written before there were digests; None for the same text.
    """
    for place in (path, _beside(path)):
        if not place.exists() or is_unedited(place) or _holds(place, former or text):
            with replacing(place) as temporary:
                temporary.write_bytes(_with_digest(text.encode()))
            return


def is_unedited(path: pathlib.Path) -> bool:
    """Returns whether a file is as `write_suggestion` wrote it."""
    if not path.is_file():
        return False
    content = path.read_bytes()
    digest = _DIGEST.search(content)
    return digest is not None and content == _with_digest(content.replace(digest[1], b"", 1))


def describe_kept(path: pathlib.Path) -> str:
    """Returns what to do about a file that the last `write_suggestion` kept, in one line."""
    beside = _beside(path)
    if is_unedited(beside):
        return (
            f"{path} may have been edited and was kept; {beside.name} is what this export would "
            f"have written: copy what you want from it, or rename it to {path.name}"
        )
    return (
        f"{path} and {beside.name} may have been edited and were kept; rename or remove "
        f"{beside.name} and export again to see what this export would have written"
    )


def _beside(path: pathlib.Path) -> pathlib.Path:
    return path.with_name(f"{path.name}.new")


def _holds(path: pathlib.Path, text: str) -> bool:
    return path.is_file() and path.read_bytes() == text.encode()


def _with_digest(content: bytes) -> bytes:
    digest = hashlib.blake2b(content, digest_size=16).hexdigest()
    return content.replace(MARK.encode(), f"{MARK}{_BEFORE_DIGEST}{digest}".encode(), 1)
