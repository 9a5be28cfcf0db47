"""Results for batches of lines, written so that an interrupted run can be resumed.

Beside the unfinished `F.partial`, `F.partial.json` describes what its results depend on and how
many lines of the input they are for. It is replaced after each batch, when the results have been
written to disk. So whatever ends the run, the next one finds which results are complete, removes
what follows them, and goes on with the next batch.
"""

import contextlib
import hashlib
import itertools
import os
import pathlib
import sys
from collections.abc import Iterator
from typing import Any, BinaryIO, NamedTuple

from export.lines.line_batches import Lines
from export.lines.line_output import is_special, open_output, partial_path
from tf_transformer.errors import InputError
from tf_transformer.storage.json_files import read_json, write_json
from tf_transformer.storage.own_files import check_own_file, replacing_own
from tf_transformer.storage.run_requests import check_same_request

_FORMAT_VERSION = 1


class Progress(NamedTuple):
    """How far a run has come.

    Attributes:
        num_lines: lines of the input with results.
        num_bytes: size of their results.
        num_truncated: sources that exceeded the model's limit.
        digest: BLAKE2 digest of these lines.
        num_incomplete: translations that lack a term or a protected span.
    """

    num_lines: int
    num_bytes: int
    num_truncated: int
    digest: str
    num_incomplete: int = 0


class BatchOutput:
    """An output of which nothing is kept if the run is interrupted, such as a pipe.

    Args:
        file: the open output.

    Attributes:
        num_lines: number of lines with results so far.
        num_truncated: how many of them exceeded the model's limit.
        num_incomplete: how many of their translations lack a term or a protected span.
    """

    def __init__(self, file: BinaryIO):
        self.file = file
        self.num_lines = self.num_truncated = self.num_incomplete = 0

    def remaining(self, batches: Iterator[list[bytes]]) -> Iterator[list[bytes]]:
        """Returns the batches that have no results yet."""
        return batches

    def finish(self, batch: list[bytes], num_truncated: int, num_incomplete: int) -> None:
        """Records that all results of a batch have been written to `file`."""
        self.num_lines += len(batch)
        self.num_truncated += num_truncated
        self.num_incomplete += num_incomplete
        self.file.flush()


class ResumableOutput(BatchOutput):
    """An output whose finished batches outlive an interruption.

    Args:
        file: the output, positioned behind the results of `progress`.
        partial: its path.
        request: what the results depend on.
        progress: of the interrupted run; None for a new one.
    """

    def __init__(
        self,
        file: BinaryIO,
        partial: pathlib.Path,
        request: dict[str, Any],
        progress: Progress | None,
    ):
        super().__init__(file)
        self._partial, self._request, self._former = partial, request, progress
        self._digest = hashlib.blake2b(digest_size=16)

    def remaining(self, batches: Iterator[list[bytes]]) -> Iterator[list[bytes]]:
        """Returns the batches that have no results yet.

        Raises:
            InputError: the lines of the former results are not those of the input.
        """
        if self._former is None:
            return batches
        while (num_missing := self._former.num_lines - self.num_lines) and (
            batch := next(batches, None)
        ):
            if batch[num_missing:]:
                batches = itertools.chain([batch[num_missing:]], batches)
            self._add(batch[:num_missing])
            self.num_lines += len(batch[:num_missing])
        self.num_truncated = self._former.num_truncated
        self.num_incomplete = self._former.num_incomplete
        if num_missing or self._digest.hexdigest() != self._former.digest:
            raise InputError(
                f"{self._partial} contains results for another input; give that input, or remove "
                "the file to start again"
            )
        print(f"tf-transformer: resuming after {self.num_lines:,} lines", file=sys.stderr)
        return batches

    def _add(self, batch):
        for line in batch:
            self._digest.update(line + b"\n")

    def finish(self, batch: list[bytes], num_truncated: int, num_incomplete: int) -> None:
        """Writes the results of a batch to disk, then records it."""
        super().finish(batch, num_truncated, num_incomplete)
        os.fsync(self.file.fileno())
        self._add(batch)
        progress = Progress(
            self.num_lines,
            self.file.tell(),
            self.num_truncated,
            self._digest.hexdigest(),
            self.num_incomplete,
        )
        content = {
            "format_version": _FORMAT_VERSION,
            "request": self._request,
            "progress": progress._asdict(),
        }
        with replacing_own(_state_path(self._partial)) as temporary:
            write_json(temporary, content)


def is_resumable(path: pathlib.Path | None, lines: Lines) -> bool:
    """Returns whether a run from an input to an output can be resumed: both must be files."""
    return path is not None and not is_special(path) and lines.status() is not None


def check_resumption(path: pathlib.Path, request: dict[str, Any]) -> None:
    """Checks that `open_batch_output` can begin or resume an output.

    Args:
        path: the output.
        request: see `open_batch_output`.

    Raises:
        InputError: the output was begun with another request, or its files are damaged.
    """
    _read_progress(partial_path(path), request)


@contextlib.contextmanager
def open_batch_output(
    path: pathlib.Path | None, request: dict[str, Any] | None
) -> Iterator[BatchOutput]:
    """Opens the output of a run that writes batch by batch, see `open_output`.

    Args:
        path: the output; None is standard output.
        request: what the results of a line depend on, as JSON values; None if the run cannot be
            resumed, see `is_resumable`.

    Raises:
        InputError: the output was begun with another request, or its files are damaged.
        OSError: as `open_output`.
    """
    if path is None or request is None:
        with open_output(path) as file:
            yield BatchOutput(file)
        return
    partial = partial_path(path)
    progress = _read_progress(partial, request)
    with open_output(path, progress.num_bytes if progress else 0) as file:
        yield ResumableOutput(file, partial, request, progress)
    _state_path(partial).unlink(missing_ok=True)


def _state_path(partial: pathlib.Path) -> pathlib.Path:
    return partial.with_name(f"{partial.name}.json")


def _read_progress(partial, request):
    """Returns the `Progress` of an interrupted run with the same request; None without one."""
    path = _state_path(partial)
    check_own_file(path)
    if not path.exists() or not partial.exists():
        return None
    try:
        state = read_json(path)
        former, progress = dict(state["request"]), Progress(**state["progress"])
        is_valid = state["format_version"] == _FORMAT_VERSION
        counts = (*progress[:3], progress.num_incomplete)
        is_valid &= all(type(number) is int and number >= 0 for number in counts)
    except (LookupError, TypeError, ValueError) as error:
        raise InputError(f"{path}: damaged; remove it to start again") from error
    if not is_valid or partial.stat().st_size < progress.num_bytes:
        raise InputError(f"{path}: damaged, or {partial.name} is; remove it to start again")
    check_same_request(
        partial,
        former,
        request,
        "give the same options to resume, or remove the file to start again",
    )
    return progress
