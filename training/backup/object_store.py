"""Objects below a URL of object storage, through fsspec."""

import contextlib
import hashlib
import pathlib
from collections.abc import Iterator

from tf_transformer.errors import InputError

_CHUNK_BYTES = 2**22
_MAX_REASON_LENGTH = 300


def check_backup_url(url: str) -> None:
    """Checks a URL and the packages that it needs, without connecting.

    Raises:
        InputError: it is not a URL of a single file system, or a package is missing.
    """
    scheme, separator, path = url.partition("://")
    if not separator or "::" in url or not path.strip("/"):
        raise InputError(
            f"--backup {url}: expected a URL such as gs://bucket/run or s3://bucket/run"
        )
    try:
        import fsspec
    except ImportError as error:
        raise InputError(
            f"--backup {url}: needs the package fsspec; pip install 'tf-transformer[backup]'"
        ) from error
    try:
        fsspec.get_filesystem_class(scheme)
    except (ImportError, ValueError) as error:
        raise InputError(f"--backup {url}: {_one_line(error)}") from error


class ObjectStore:
    """Reads and writes objects below a URL.

    An object of an object store appears whole or not at all. Errors of the service, whatever their
    type in its package, become `OSError` with a message of one line.

    Args:
        url: the URL, such as `gs://bucket/folder`. Credentials come from the environment, as the
            packages gcsfs and s3fs read them.

    Raises:
        InputError: as `check_backup_url`.
        OSError: the file system cannot be opened, as without credentials.
    """

    def __init__(self, url: str):
        check_backup_url(url)
        import fsspec

        self.url = url.rstrip("/")
        # Listings must be up to date, and a local file system makes folders only if told to.
        options = {"auto_mkdir": True} if url.startswith(("file://", "local://")) else {}
        with self._explained(""):
            self._files, self._root = fsspec.url_to_fs(
                self.url, use_listings_cache=False, **options
            )

    def read(self, name: str, max_bytes: int) -> bytes | None:
        """Returns the content of an object, or None if there is no such object.

        Raises:
            InputError: it is larger than `max_bytes`.
            OSError: it cannot be read.
        """
        with self._explained(name):
            try:
                with self._files.open(self._path(name), "rb") as file:
                    content = file.read(max_bytes + 1)
            except FileNotFoundError:
                return None
        if len(content) > max_bytes:
            raise InputError(f"{self.url}/{name}: expected at most {max_bytes:,} bytes")
        return content

    def write(self, name: str, content: bytes) -> None:
        """Writes an object from memory.

        Raises:
            OSError: it cannot be written.
        """
        with self._explained(name):
            self._files.pipe_file(self._path(name), content)

    def upload(self, path: pathlib.Path, name: str) -> None:
        """Writes an object from a file.

        Raises:
            OSError: it cannot be written.
        """
        with self._explained(name):
            self._files.put_file(str(path), self._path(name))

    def download(self, name: str, path: pathlib.Path, size: int) -> str:
        """Reads an object into a new file.

        Args:
            name: the object.
            path: the file to write.
            size: expected size of the object; no more bytes are read.

        Returns:
            The SHA-256 digest of its content, in hexadecimal digits.

        Raises:
            InputError: the object is missing or of another size.
            OSError: it cannot be read, or the file cannot be written.
        """
        hasher, rest = hashlib.sha256(), size
        with self._explained(name), open(path, "xb") as copy:
            try:
                with self._files.open(self._path(name), "rb") as file:
                    while chunk := file.read(min(rest + 1, _CHUNK_BYTES)):
                        rest -= len(chunk)
                        if rest < 0:
                            break
                        hasher.update(chunk)
                        copy.write(chunk)
            except FileNotFoundError as error:
                raise InputError(f"{self.url}/{name}: missing") from error
        if rest:
            found = "more" if rest < 0 else f"{size - rest:,}"
            raise InputError(f"{self.url}/{name}: expected {size:,} bytes, got {found}")
        return hasher.hexdigest()

    def sizes(self, folder: str) -> dict[str, int]:
        """Returns the sizes of the objects in a folder, by name; empty if there is none.

        Raises:
            OSError: it cannot be listed.
        """
        with self._explained(folder):
            try:
                found = self._files.ls(self._path(folder), detail=True)
            except FileNotFoundError:
                return {}
        files = (info for info in found if info["type"] == "file")
        return {info["name"].rpartition("/")[2]: info["size"] for info in files}

    def remove(self, name: str) -> None:
        """Removes an object.

        Raises:
            OSError: it cannot be removed.
        """
        with self._explained(name):
            self._files.rm_file(self._path(name))

    def _path(self, name):
        return f"{self._root.rstrip('/')}/{name}"

    @contextlib.contextmanager
    def _explained(self, name: str) -> Iterator[None]:
        """Turns the errors of all storage packages into `OSError` with the object's name."""
        try:
            yield
        except InputError:
            raise
        except Exception as error:
            where = f"{self.url}/{name}".rstrip("/")
            raise OSError(f"{where}: {_one_line(error)}") from error


def _one_line(error: Exception) -> str:
    reason = " ".join(str(error).split())[:_MAX_REASON_LENGTH]
    return reason or type(error).__name__
