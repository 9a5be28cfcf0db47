"""Translating a large file: chunks by pipelines of Apache Beam, then one output.

    F.work/             intermediate files, and one result per chunk; removed at the end
    F.failed.jsonl      rows that failed, each with its number and the reason; only if there are any
    F                   the output, written at once

The result of a chunk appears whole, so an interrupted run is resumed by the same call.
"""

import contextlib
import hashlib
import json
import pathlib
import shutil
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import apache_beam
from apache_beam.options.pipeline_options import PipelineOptions

from export.bulk import line_rows, parquet_rows
from export.bulk.chunks import (
    ROWS_PER_CHUNK,
    Chunk,
    Prepare,
    TranslateChunks,
    chunks_of_groups,
    chunks_of_lines,
)
from export.bulk.model_handler import SavedModelHandler
from export.bulk.row_files import RowFile
from tf_transformer.apache_beam.pipelines import write_files
from tf_transformer.apache_beam.plain_texts import PlainTexts, count_files, decompress_files
from tf_transformer.errors import InputError
from tf_transformer.storage.files import locked, remove_leftovers, replacing
from tf_transformer.storage.json_files import read_json, write_json
from tf_transformer.storage.own_files import make_own_folder, replacing_own

# What a run depends on: its options, written first, and a digest of the input.
_REQUEST_NAME = "request.json"
_INPUT_NAME = "input.json"


class Report(NamedTuple):
    """Counts of a run.

    Attributes:
        num_rows: rows of the input.
        num_failed: rows without a translation.
        num_truncated: rows whose source exceeded the model's limit.
        num_new: rows that this run translated, the others having been translated before.
    """

    num_rows: int
    num_failed: int
    num_truncated: int
    num_new: int


def translate_file(
    options: PipelineOptions,
    source: RowFile,
    output: RowFile,
    handler: SavedModelHandler,
    request: dict[str, Any],
    prepare: Prepare,
) -> Report:
    """Translates a file, or resumes an interrupted call with the same arguments.

    Args:
        options: options of Apache Beam.
        source: the input.
        output: the output; its format is text or that of the input.
        handler: translates sentences.
        request: what a translation depends on, as JSON values.
        prepare: maps a sentence to the one to translate.

    Raises:
        InputError: the input is invalid as a whole, every row failed, or the output was begun with
            other arguments.
    """
    work = output.path.with_name(f"{output.path.name}.work")
    with _locked_work(work):
        _start_or_resume(work / _REQUEST_NAME, request)
        chunks, texts = _plan(options, source, work)
        missing = [chunk for chunk in chunks if not chunk.report_path.exists()]
        if missing:
            transform = apache_beam.ParDo(TranslateChunks(handler, source, output, texts, prepare))
            results = [chunk.report_path for chunk in chunks]
            write_files("translating", options, missing, [transform], results, ROWS_PER_CHUNK)
        reports = [read_json(chunk.report_path) for chunk in chunks]
        num_rows, num_failed, num_truncated = (
            sum(report[name] for report in reports) for name in ("rows", "failed", "truncated")
        )
        if num_failed == num_rows > 0:
            raise InputError(f"every row failed: {_first_reason(chunks)}")
        _write_failed(chunks, output.path)
        _join(chunks, source, output)
        shutil.rmtree(work)
    return Report(num_rows, num_failed, num_truncated, sum(chunk.num_rows for chunk in missing))


@contextlib.contextmanager
def _locked_work(work: pathlib.Path) -> Iterator[None]:
    is_ours = not work.exists() or (work / _REQUEST_NAME).exists() or not any(work.iterdir())
    if not is_ours:
        raise InputError(f"{work}: expected nothing, for intermediate files; remove it")
    make_own_folder(work)
    with locked(work, "translating to it"):
        remove_leftovers(work)
        yield


def _plan(
    options: PipelineOptions, source: RowFile, work: pathlib.Path
) -> tuple[list[Chunk], PlainTexts | None]:
    """Returns the chunks and what reads them, if the input is that of the interrupted run."""
    if source.format == "parquet":
        groups = parquet_rows.row_groups(source)
        _start_or_resume(work / _INPUT_NAME, {"input": _digest(source.path)})
        return chunks_of_groups(groups, work), None
    (count,) = count_files(options, work, [source.path], ROWS_PER_CHUNK)
    # Before anything is derived from the text: a decompressed one is not written again.
    _start_or_resume(work / _INPUT_NAME, {"input": count.digest})
    plain = decompress_files(options, work, [source.path])
    texts = PlainTexts(plain, {source.path: count.state})
    return chunks_of_lines(count.lines, count.offsets, work), texts


def _digest(path: pathlib.Path) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "blake2b").hexdigest()


def _start_or_resume(path: pathlib.Path, request: dict[str, Any]) -> None:
    """Records what a new run depends on, or compares it with what is recorded."""
    work = path.parent
    if not path.exists():
        with replacing_own(path) as temporary:
            write_json(temporary, request)
    try:
        former = dict(read_json(path))
    except (TypeError, ValueError) as error:
        raise InputError(f"{path}: damaged; remove {work} to start again") from error
    for name in sorted(former.keys() | request.keys()):
        if former.get(name) != request.get(name):
            raise InputError(
                f"{work} was begun with another {name.replace('_', ' ')}; give the same arguments "
                "to resume, or remove the folder to start again"
            )


def _first_reason(chunks: Sequence[Chunk]) -> str:
    with open(chunks[0].failed_path, encoding="utf-8") as file:
        return file.readline().strip()


def failed_path(output: pathlib.Path) -> pathlib.Path:
    """Returns the path of the rows that failed."""
    return output.with_name(f"{output.name}.failed.jsonl")


def is_record(path: pathlib.Path) -> bool:
    """Returns whether a file has been written by `translate_file`, for rows that failed."""
    try:
        with open(path, "rb") as file:
            first = json.loads(file.readline(2**20))
    except (OSError, ValueError, RecursionError):
        return False
    return isinstance(first, dict) and {"row", "reason"} <= first.keys()


def _write_failed(chunks: Sequence[Chunk], output: pathlib.Path) -> None:
    path = failed_path(output)
    failed = [chunk.failed_path for chunk in chunks if chunk.failed_path.stat().st_size]
    if failed:
        _join_bytes(failed, path)
    elif is_record(path):  # of a former run
        path.unlink(missing_ok=True)


def _join(chunks: Sequence[Chunk], source: RowFile, output: RowFile) -> None:
    parts = [chunk.path for chunk in chunks]
    if output.format != "parquet":
        # A compressed file without rows is not an empty file.
        _join_bytes(parts, output.path, line_rows.compress(b"", output.path))
        return
    with replacing(output.path) as temporary:
        if parts:
            parquet_rows.join_files(parts, temporary)
        else:
            parquet_rows.write_rows(parquet_rows.no_rows(source), [], temporary)


def _join_bytes(parts: Sequence[pathlib.Path], path: pathlib.Path, empty: bytes = b"") -> None:
    with replacing(path) as temporary, open(temporary, "wb") as joined:
        if not parts:
            joined.write(empty)
        for part in parts:
            with open(part, "rb") as file:
                shutil.copyfileobj(file, joined, 1 << 20)
