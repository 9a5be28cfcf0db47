"""The options of commands that can run as an Apache Beam pipeline."""

import argparse
import contextlib
import io
import logging
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

from tf_transformer.apache_beam.direct_runner import DIRECT
from tf_transformer.errors import InputError
from tf_transformer.printable import printable

if TYPE_CHECKING:  # `--help` must not import Apache Beam
    from apache_beam.options.pipeline_options import PipelineOptions

# Apache Beam's own names.
_MAX_WORKERS = 1024
RUNNERS = {
    "direct": DIRECT,
    "dask": "apache_beam.runners.dask.dask_runner.DaskRunner",
    "flink": "FlinkRunner",
    "spark": "SparkRunner",
    "dataflow": "DataflowRunner",
    "portable": "PortableRunner",
}


def add_runner_options(parser: argparse.ArgumentParser) -> None:
    """Adds `--runner`, and the options of Apache Beam that follow `--`."""
    parser.add_argument(
        "--runner", choices=RUNNERS, metavar="NAME",
        help=f"run as a pipeline of Apache Beam (extra `beam`): {', '.join(RUNNERS)}; options of "
        "Beam follow `--`, such as `-- --dask_client_address HOST:8786`. All machines must reach "
        "the files under the same paths",
    )  # fmt: skip
    parser.add_argument("beam_options", nargs="*", metavar="-- OPTION", help=argparse.SUPPRESS)


def check_runner(runner: str | None, arguments: Sequence[str]) -> None:
    """Checks that Apache Beam is installed if a runner is given, and not given options otherwise.

    Args:
        runner: a key of `RUNNERS`, or None.
        arguments: the options that follow `--`.

    Raises:
        InputError: Apache Beam is not installed, or there are options without a runner.
    """
    if runner is None:
        if arguments:
            raise InputError(
                f"{printable(arguments[0], 100)}: options of Apache Beam need --runner; expected "
                "none without it"
            )
        return
    try:
        _import_quietly()
    except ImportError as error:
        raise InputError(
            f"--runner {runner}: Apache Beam is not installed ({printable(str(error), 200)}); "
            "pip install 'tf-transformer[beam]'"
        ) from error


def pipeline_options(runner: str, arguments: Sequence[str], num_workers: int) -> "PipelineOptions":
    """Parses the options of Apache Beam.

    Args:
        runner: a key of `RUNNERS`.
        arguments: the options that follow `--` on the command line.
        num_workers: number of processes of the direct runner.

    Raises:
        InputError: an option has an invalid value, or the runner does not know it.
    """
    _import_quietly()
    from apache_beam.options.pipeline_options import (
        DirectOptions,
        PipelineOptions,
        StandardOptions,
    )

    if runner == "dask":
        _import_dask()  # its options are registered then
    flags = list(arguments)
    given = {flag.partition("=")[0] for flag in flags}
    if runner == "direct" and "--direct_num_workers" not in given:
        flags.append(f"--direct_num_workers={num_workers}")
    # An element is a file or a part of one: too much to give a worker 128 of them.
    if runner == "dask" and not given & {"--dask_npartitions", "--dask_partition_size"}:
        flags.append("--dask_partition_size=1")
    options = PipelineOptions(flags)
    errors = io.StringIO()
    try:
        with contextlib.redirect_stderr(errors), _warnings() as warnings:
            options.get_all_options()
    except SystemExit as error:
        message = errors.getvalue().strip().rpartition("\n")[2]
        raise InputError(f"options of --runner {runner}: {printable(message, 300)}") from error
    # Flink's and Spark's job servers know options that Beam does not.
    if runner in ("direct", "dask") and warnings:
        raise InputError(f"options of --runner {runner}: {printable(warnings[0], 300)}")
    if runner == "direct":
        number = options.view_as(DirectOptions).direct_num_workers
        if not 0 <= number <= _MAX_WORKERS:
            raise InputError(
                f"options of --runner direct: expected --direct_num_workers from 0 to "
                f"{_MAX_WORKERS}. Received: {number}"
            )
    options.view_as(StandardOptions).runner = RUNNERS[runner]
    return options


def _import_dask() -> None:
    from tf_transformer.apache_beam import quiet_logs

    # Read at its import, and by its workers. Errors are raised, too.
    os.environ.setdefault("DASK_LOGGING__DISTRIBUTED", "critical")
    from apache_beam.runners.dask import dask_runner

    if not dask_runner.ddist:  # what it is if it cannot be imported
        raise InputError("--runner dask: pip install 'tf-transformer[beam]'")
    import dask.config

    if not dask.config.get("distributed.worker.preload", None):
        dask.config.set({"distributed.worker.preload": [quiet_logs.__name__]})


def _import_quietly() -> None:
    """Imports Apache Beam without its warnings of missing packages, such as those of clouds."""
    with _warnings():
        import apache_beam  # noqa: F401


@contextlib.contextmanager
def _warnings():
    """Keeps warnings from being logged, and yields a list of them."""
    found: list[str] = []

    def record(message: logging.LogRecord) -> bool:
        found.append(message.getMessage())
        return False

    handler = logging.Handler()
    handler.addFilter(record)
    root = logging.getLogger()
    former = root.handlers[:]
    root.handlers[:] = [handler]
    try:
        yield found
    finally:
        root.handlers[:] = former
