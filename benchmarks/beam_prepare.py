"""Preparing a large corpus by Apache Beam, beside parallel processes.

    python -m benchmarks.beam_prepare --directory DIR [--pairs 20000000] [--kills 5]
        [--runs processes direct killed dask-1 dask-2]

Generates a corpus as `benchmarks.prepare` does, and prepares it by processes of this machine, by
Apache Beam's direct runner, by the same with SIGKILL at random moments and a new start after each,
and on a cluster of Dask with one and with two workers. Prints the time, the memory of all processes
together, and whether the folder is byte for byte that of the first run. Outputs are removed.
"""

import argparse
import contextlib
import hashlib
import logging
import os
import pathlib
import random
import shutil
import sys
import time
from collections.abc import Iterator

from benchmarks.killed_runs import run_killed
from benchmarks.prepare import Memory, generate

RUNS = ("processes", "direct", "killed", "dask-1", "dask-2")


@contextlib.contextmanager
def runner_options(run: str) -> Iterator[list[str]]:
    """Yields the options of a run; a cluster is up meanwhile."""
    if not run.startswith("dask"):
        yield [] if run == "processes" else ["--runner", "direct"]
        return
    from distributed import LocalCluster

    num_workers = int(run.rpartition("-")[2])
    with LocalCluster(
        n_workers=num_workers, threads_per_worker=1, silence_logs=logging.CRITICAL
    ) as cluster:
        yield ["--runner", "dask", "--", "--dask_client_address", cluster.scheduler_address]


def digest(folder: pathlib.Path) -> str:
    """Returns a digest of the names and contents of all files."""
    hasher = hashlib.blake2b(digest_size=16)
    for path in sorted(folder.iterdir()):
        hasher.update(path.name.encode())
        with open(path, "rb") as file:
            hasher.update(hashlib.file_digest(file, "blake2b").digest())
    return hasher.hexdigest()


def main() -> None:
    """Runs the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--directory", type=pathlib.Path, required=True, metavar="DIR")
    parser.add_argument("--pairs", type=int, default=20_000_000, metavar="N")
    parser.add_argument("--kills", type=int, default=5, metavar="N", help="of the run `killed`")
    parser.add_argument("--runs", nargs="+", choices=RUNS, default=list(RUNS), metavar="RUN")
    options = parser.parse_args()
    paths = generate(options.directory, options.pairs)
    print("| | seconds | times the first | peak MB in each quarter of the time | same bytes |")
    print("|---|---|---|---|---|", flush=True)
    first: tuple[float, str] | None = None
    draw = random.Random(7)
    for run in options.runs:
        output = options.directory / f"{options.pairs}-{run}-{time.time_ns()}"
        command = [sys.executable, "-m", "tf_transformer", "prepare", "--output", str(output)]
        command += ["--source", str(paths[0]), "--target", str(paths[1])]
        waits: list[float] = []
        if run == "killed" and first:
            waits = [first[0] * draw.uniform(0.05, 0.4) for _ in range(options.kills)]
        with runner_options(run) as extra:
            memory = Memory(os.getpid())
            memory.start()
            seconds, kills = run_killed([*command, *extra], waits)
            memory.stop()
        found = digest(output)
        shutil.rmtree(output)
        first = first or (seconds, found)
        name = f"{run}, {kills} times" if kills else run
        cells = [name, f"{seconds:,.0f}", f"{seconds / first[0]:.2f}", memory.by_quarters()]
        cells.append("yes" if found == first[1] else "NO")
        print(f"| {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
