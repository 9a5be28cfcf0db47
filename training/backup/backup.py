"""A backup of a model directory on object storage, complete at any time."""

import contextlib
import hashlib
import logging
import pathlib
import secrets
import threading
import time
from collections.abc import Iterator
from typing import Any

from tf_transformer.errors import InputError
from training.backup.manifest import (
    DIGEST,
    OBJECTS_NAME,
    Manifest,
    StoredFile,
    object_name,
    read_manifest,
    write_manifest,
)
from training.backup.object_store import ObjectStore
from training.backup.restoring import restore
from training.backup.snapshot import has_checkpoint, remove_snapshot, run_files, take_snapshot

_log = logging.getLogger(__name__)


class Backup:
    """A copy of a run's model directory on object storage.

    Objects are named by the digests of their content, so that no object is ever changed. A save
    uploads new files, then replaces the manifest, which is one small object, and then removes the
    objects that it no longer names. Hence a reader sees a complete state at any time, whatever
    interrupts a save. Everything read from the backup is checked before it is used.

    A backup has one writer, the last process that called `claim`; earlier ones stop at their next
    save. Methods are called from one thread.

    Args:
        url: URL of the backup, see `ObjectStore`.
        model_dir: the model directory.
    """

    def __init__(self, url: str, model_dir: pathlib.Path):
        self._store = ObjectStore(url)
        self._model_dir = model_dir
        self._writer = secrets.token_hex(16)
        self._digests: dict[tuple[int, ...], str] = {}
        self._thread: threading.Thread | None = None
        self._error: BaseException | None = None

    def restore(self, run: dict[str, Any] | None) -> int | None:
        """Downloads the backup if its newest checkpoint is newer, see `restoring.restore`."""
        return restore(self._store, self._model_dir, run)

    def claim(self) -> None:
        """Makes this process the writer of the backup, and checks that it can write.

        Raises:
            InputError: the manifest is damaged.
            OSError: the backup cannot be read or written.
        """
        remove_snapshot(self._model_dir)
        manifest = read_manifest(self._store)
        write_manifest(self._store, Manifest(self._writer, manifest.files if manifest else {}))

    def start_saving(self) -> None:
        """Uploads the model directory as it is now, in the background.

        If the last upload is still running, nothing is uploaded. If it failed, a warning is logged,
        and this one makes up for it.

        Raises:
            InputError: another process is the writer of the backup.
            OSError: the disk is full.
        """
        if self._thread and self._thread.is_alive():
            _log.warning(
                "%s: the last upload is still running; this checkpoint is uploaded with the next",
                self._store.url,
            )
            return
        self.wait()
        snapshot = take_snapshot(self._model_dir)
        self._thread = threading.Thread(target=self._save_and_remove, args=(snapshot,), daemon=True)
        self._thread.start()

    def wait(self) -> None:
        """Waits until the running upload, if any, has ended. Logs a warning if it failed.

        Raises:
            InputError: another process is the writer of the backup.
        """
        if self._thread:
            self._thread.join()
        self._thread, error, self._error = None, self._error, None
        if isinstance(error, OSError):
            _log.warning("The backup is not up to date; trying again later. %s", error)
        elif error is not None:
            raise error

    @contextlib.contextmanager
    def kept(self) -> Iterator[None]:
        """Uploads the model directory at the end of the `with` block.

        If an error ends the block, only the running upload is completed, and nothing after Ctrl-C.

        Raises:
            InputError: another process is the writer of the backup.
            OSError: the last state could not be uploaded.
        """
        try:
            yield
        except Exception:
            with contextlib.suppress(InputError):
                self.wait()
            raise
        self.wait()
        if has_checkpoint(self._model_dir):
            self._save_and_remove(take_snapshot(self._model_dir))
            error, self._error = self._error, None
            if error is not None:
                raise error

    def _save_and_remove(self, snapshot: pathlib.Path) -> None:
        try:
            self._save(snapshot)
        except BaseException as error:
            self._error = error
        finally:
            remove_snapshot(self._model_dir)

    def _save(self, folder: pathlib.Path) -> None:
        began = time.monotonic()
        self._check_writer()
        files = self._describe(folder)
        stored = self._store.sizes(OBJECTS_NAME)
        num_bytes = 0
        for name, file in files.items():
            if stored.get(file.sha256) != file.size:  # else it has been uploaded before
                self._store.upload(folder / name, object_name(file))
                stored[file.sha256] = file.size
                num_bytes += file.size
        self._check_writer()
        manifest = Manifest(self._writer, files)
        write_manifest(self._store, manifest)
        for name in stored.keys() - {file.sha256 for file in files.values()}:
            if DIGEST.fullmatch(name):
                self._store.remove(f"{OBJECTS_NAME}/{name}")
        _log.info(
            "Backup of step %s in %s: uploaded %.1f MB in %.1f s",
            f"{manifest.newest_step:,}",
            self._store.url,
            num_bytes / 1e6,
            time.monotonic() - began,
        )

    def _describe(self, folder: pathlib.Path) -> dict[str, StoredFile]:
        """Returns sizes and digests of the files in a snapshot; computes those of new ones."""
        files: dict[str, StoredFile] = {}
        digests: dict[tuple[int, ...], str] = {}
        for name in run_files(folder):
            status = (folder / name).stat()
            key = (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)
            digests[key] = self._digests.get(key) or _digest(folder / name)
            files[name] = StoredFile(status.st_size, digests[key])
        self._digests = digests
        return files

    def _check_writer(self) -> None:
        manifest = read_manifest(self._store)
        if manifest is not None and manifest.writer != self._writer:
            raise InputError(
                f"{self._store.url}: another process writes this backup now, so this one stops; "
                "give each run a --backup of its own"
            )


def _digest(path: pathlib.Path) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
