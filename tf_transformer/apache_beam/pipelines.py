"""Runs linear pipelines: a list of items, and transforms that end by writing files.

Only what every runner can do is used: one chain of transforms without tagged outputs, and elements
of a few megabytes at most. Results are files of a folder that all workers reach at the same path.
"""

import contextlib
import logging
import os
import pathlib
import threading
import traceback
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import tqdm

from tf_transformer.apache_beam.direct_runner import DIRECT, direct_runner, loopback_only
from tf_transformer.errors import InputError
from tf_transformer.printable import printable
from tf_transformer.storage.files import replacing

if TYPE_CHECKING:
    import apache_beam
    from apache_beam.options.pipeline_options import PipelineOptions

# The last error of a worker, in the folder of intermediate files.
_FAILURE_NAME = "failure.txt"
_MAX_MESSAGE = 2000
# Seconds between two looks at the results, for the progress bar.
_INTERVAL = 1.0


def run_pipeline(
    options: "PipelineOptions",
    work: pathlib.Path,
    items: Sequence[Any],
    transforms: Sequence["apache_beam.PTransform"],
) -> None:
    """Runs a pipeline and waits for its end.

    Args:
        options: options of Apache Beam.
        work: folder in which workers leave their errors, see `failures_are_kept`.
        items: the first elements; each can be computed by another worker.
        transforms: the transforms, in order.

    Raises:
        InputError: a worker or the runner failed.
    """
    failure = work / _FAILURE_NAME
    failure.unlink(missing_ok=True)
    try:
        _execute(options, items, transforms)
    except Exception as error:
        with contextlib.suppress(FileNotFoundError):
            raise InputError(failure.read_text(encoding="utf-8")) from error
        reason = traceback.format_exception_only(error)[-1].strip().splitlines()
        raise InputError(
            f"the pipeline of Apache Beam failed: {printable(reason[-1].rstrip('.'), 400)}; "
            "run the same command again to resume"
        ) from error


def _execute(options, items, transforms) -> None:
    import apache_beam
    from apache_beam.options.pipeline_options import StandardOptions

    is_direct = options.view_as(StandardOptions).runner == DIRECT
    with _quiet_logs(), loopback_only() if is_direct else contextlib.nullcontext():
        runner = direct_runner() if is_direct else None
        pipeline = apache_beam.Pipeline(runner, options)
        # Without the shuffle, a runner would compute all items on one machine.
        collection = pipeline | apache_beam.Create(items) | apache_beam.Reshuffle()
        for transform in transforms:
            collection = collection | transform
        result = pipeline.run()
        result.wait_until_finish()
        if client := getattr(result, "client", None):  # Dask's, which nothing else closes
            client.close()


@contextlib.contextmanager
def failures_are_kept(work: pathlib.Path) -> Iterator[None]:
    """Writes errors of a worker to a file, because runners report them as tracebacks only.

    Args:
        work: the same folder as that of `run_pipeline`.
    """
    try:
        yield
    except (InputError, OSError) as error:
        message = printable(" ".join(str(error).split()), _MAX_MESSAGE)
        with contextlib.suppress(OSError), replacing(work / _FAILURE_NAME) as path:
            path.write_text(message, encoding="utf-8")
        raise


def write_files(
    label: str,
    options: "PipelineOptions",
    items: Sequence[Any],
    transforms: Sequence["apache_beam.PTransform"],
    results: Sequence[pathlib.Path],
    num_rows: int | None = None,
) -> None:
    """Runs a pipeline that writes files to a folder, with a progress bar.

    Args:
        label: what the pipeline does, for the progress bar.
        options: options of Apache Beam.
        items: the first elements, see `run_pipeline`.
        transforms: the transforms.
        results: the files, all in one folder; some may exist.
        num_rows: number of rows that a file stands for, to be shown instead of files.

    Raises:
        InputError: as `run_pipeline`, or a file is missing afterwards.
    """
    folder = results[0].parent
    names = {path.name for path in results}

    def count() -> int:
        return len(names.intersection(os.listdir(folder)))

    bar = tqdm.tqdm(
        desc=label,
        total=len(names),
        initial=count(),
        unit=" files" if num_rows is None else " sentences",
        unit_scale=num_rows or False,
        leave=False,
        disable=None,
    )
    with bar, _updated(bar, count):
        run_pipeline(options, folder, items, transforms)
    if count() < len(names):
        raise InputError(
            f"{label}: the pipeline of Apache Beam ended with {count():,} of {len(names):,} "
            "results; run the same command again to resume"
        )


@contextlib.contextmanager
def _updated(bar: tqdm.tqdm, count: Callable[[], int]) -> Iterator[None]:
    """Sets a progress bar to `count()` again and again."""
    ended = threading.Event()

    def update():
        while not ended.wait(_INTERVAL):
            bar.update(count() - bar.n)

    thread = threading.Thread(target=update, daemon=True)
    if not bar.disable:
        thread.start()
    try:
        yield
    finally:
        ended.set()
        if thread.is_alive():
            thread.join()


@contextlib.contextmanager
def _quiet_logs() -> Iterator[None]:
    """Silences Apache Beam's logs below critical ones: its errors are raised, too."""
    logger = logging.getLogger("apache_beam")
    former = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        logger.setLevel(former)
