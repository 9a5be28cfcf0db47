"""Generated files that an operator may edit: an export updates them until they are edited.

Each file contains a mark with the digest of its other content, by which an edit is detected.
"""

import hashlib
import os
import pathlib
import re
import stat

from tf_transformer.storage.files import replacing

MARK = "written by tf-transformer export"

_BEFORE_DIGEST = "; an edited file is kept; digest "
_DIGEST = re.compile(rf"{MARK}({_BEFORE_DIGEST}[0-9a-f]{{32}})".encode())


def write_suggestion(path: pathlib.Path, text: str, former: str | None = None) -> None:
    """Writes a generated file, replacing an unedited one.

    An edited file is kept, and so is a link to nothing; the text is written to `PATH.new`. If that
    file has been edited too, nothing is written. A file that is replaced keeps its permissions.

    Args:
        path: path of the file.
        text: content with `MARK` in a comment.
        former: the content that earlier versions wrote without a digest; None if it is `text`.
    """
    for target in (path, _new_path(path)):
        is_new = not os.path.lexists(target)
        if is_new or is_unedited(target) or _holds(target, former or text):
            with replacing(target) as temporary:
                temporary.write_bytes(_with_digest(text.encode()))
                if not is_new:
                    temporary.chmod(stat.S_IMODE(target.stat().st_mode))
            return


def is_unedited(path: pathlib.Path) -> bool:
    """Returns whether a file is unchanged since `write_suggestion` wrote it."""
    if not path.is_file():
        return False
    content = path.read_bytes()
    digest = _DIGEST.search(content)
    return digest is not None and content == _with_digest(content.replace(digest[1], b"", 1))


def describe_kept(path: pathlib.Path) -> str:
    """Returns one line that says what to do about a file that `write_suggestion` kept."""
    new = _new_path(path)
    if is_unedited(new):
        return (
            f"{path} may have been edited and was kept; {new.name} is what this export would "
            f"have written: copy what you want from it, or rename it to {path.name}"
        )
    return (
        f"{path} and {new.name} may have been edited and were kept; rename or remove "
        f"{new.name} and export again to see what this export would have written"
    )


def _new_path(path: pathlib.Path) -> pathlib.Path:
    return path.with_name(f"{path.name}.new")


def _holds(path: pathlib.Path, text: str) -> bool:
    return path.is_file() and path.read_bytes() == text.encode()


def _with_digest(content: bytes) -> bytes:
    digest = hashlib.blake2b(content, digest_size=16).hexdigest()
    return content.replace(MARK.encode(), f"{MARK}{_BEFORE_DIGEST}{digest}".encode(), 1)
