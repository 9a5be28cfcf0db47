"""`translate --runner`: translating a large file as a pipeline of Apache Beam."""

import argparse
import functools
import os
import pathlib
import sys
import time

from tf_transformer.apache_beam.runner_options import check_runner, pipeline_options
from tf_transformer.command_line.command_options import parse_search
from tf_transformer.command_line.predictor_options import parse_output_options
from tf_transformer.command_line.reranking_options import RERANKING_OPTIONS
from tf_transformer.command_line.tag_options import parse_tags
from tf_transformer.errors import InputError
from tf_transformer.storage.files import check_writable
from tf_transformer.storage.json_files import read_json
from tf_transformer.storage.output_files import check_output_file
from tf_transformer.storage.saved_model import model_digest, version_folder
from tf_transformer.text.language_tags import add_tags
from tf_transformer.text.reading import COMPRESSED

# Options of `translate` that are of no use for an exported model, or for a whole file.
_EXCLUDED = (
    *("n_best", "split_sentences", "shard", "end_piece", "dtype", "shortlist", "xla"),
    *RERANKING_OPTIONS,
)


def is_bulk(options: argparse.Namespace) -> bool:
    """Returns whether the command is to run as a pipeline.

    Raises:
        InputError: `--runner` is given without `--saved-model`, or Apache Beam is not installed.
    """
    if options.runner is not None and options.saved_model is None:
        raise InputError("--runner is valid only with --saved-model")
    check_runner(options.runner, options.beam_options)
    return options.runner is not None


def run_bulk(options: argparse.Namespace) -> None:
    """Translates a file and prints how fast that was."""
    for name in _EXCLUDED:
        if getattr(options, name):
            raise InputError(f"--{name.replace('_', '-')} is not valid with --runner")
    if options.input in (None, "-") or options.output is None:
        raise InputError("--runner: expected files as --input and --output")
    from export.bulk.model_handler import SavedModelHandler
    from export.bulk.row_files import RowFile
    from export.bulk.translate_file import (
        failed_path,
        is_record,
        translate_file,
    )

    source, output = RowFile.parse(options.input), RowFile.parse(options.output)
    if not source.path.is_file():
        raise InputError(f"{source.path}: expected a file")
    if output.format not in ("text", source.format):
        raise InputError(
            f"--output {output.path}: expected text or {source.format}, as the input, got "
            f"{output.format}"
        )
    folder = version_folder(options.saved_model)
    check_writable(output.path)
    inputs = [source.path, *(path for path in folder.rglob("*") if path.is_file())]
    failed = failed_path(output.path)
    for path in (output.path, failed):
        check_output_file("--output", path, inputs=inputs)
    if failed.exists() and not is_record(failed):
        raise InputError(f"{failed}: expected nothing, or the failed rows of a former run; move it")
    num_workers = len(os.sched_getaffinity(0))
    beam_options = pipeline_options(options.runner, options.beam_options, num_workers)
    search = _checked_search(options, folder)
    # On one machine, a process for each core has one thread; elsewhere, TensorFlow knows better.
    num_threads = 1 if options.runner == "direct" else None
    handler = SavedModelHandler(folder, search, num_threads=num_threads)
    tags = parse_tags(options)
    request = {
        "model": model_digest(folder),
        "search": search,
        "tags": tags,
        "column": source.column,
        "format": output.format,
        "compression": output.path.suffix if output.path.suffix in COMPRESSED else "",
    }
    start = time.monotonic()
    prepare = functools.partial(_with_tags, tags=tags)
    report = translate_file(beam_options, source, output, handler, request, prepare)
    seconds = time.monotonic() - start
    print(
        f"Translated {report.num_new:,} sentences in {seconds:,.0f} s, "
        f"{report.num_new / seconds:,.0f} per second: {output.path}"
    )
    if report.num_truncated:
        print(f"{report.num_truncated:,} exceeded the model's length limit and were truncated")
    if report.num_failed:
        print(
            f"tf-transformer: {report.num_failed:,} of {report.num_rows:,} rows failed, see "
            f"{failed_path(output.path)}",
            file=sys.stderr,
        )


def _with_tags(line: bytes, where: str, tags: str) -> bytes:
    return add_tags(line, tags, where) if tags else line


def _checked_search(options, folder: pathlib.Path) -> dict:
    """Returns the given search options, which the exported model must be able to follow."""
    search = parse_search(options)
    largest = read_json(folder / "model.json").get("beam_size") if search else None
    if largest and search.get("beam_size", 0) > largest:
        raise InputError(
            f"--beam-size {search['beam_size']}: expected at most that of the exported model, "
            f"{largest}"
        )
    return search | parse_output_options(options)
