"""Compares the numbers that this version and another commit compute.

    python -m benchmarks.same_numbers --against 1c712d8 [--model-dir DIR ...]

Extracts the packages of the other commit from git. That version writes models, weights, checkpoints
and a prepared folder from a small generated corpus. Then the same program (`worker.py`) runs with
each of the two versions, reads these files, and saves what it computes: initial weights, logits,
losses, gradients, weights after training, translations, and outputs of exports. Prints a table in
Markdown. The status is 1 if a relative difference exceeds 1e-6 and is not an intentional change
(`CHANGED` in `comparison.py`).
"""

import argparse
import os
import pathlib
import subprocess
import sys
import tempfile

from benchmarks.same_numbers.comparison import compare, details, table
from benchmarks.same_numbers.numbers import read_numbers
from benchmarks.versions import ROOT, extract


def run_worker(version: pathlib.Path, name: str, *words: str | pathlib.Path) -> None:
    """Runs the worker with the packages in the folder `version`.

    Args:
        version: folder of the packages.
        name: name of the version in messages.
        *words: arguments of the worker.

    Raises:
        SystemExit: the worker failed; contains its output.
    """
    print(f"{name}: {words[0]} ...", file=sys.stderr, flush=True)
    # The worker itself is that of this version, since the other folder has no benchmarks.
    environment = os.environ | {
        "PYTHONPATH": f"{version}{os.pathsep}{ROOT}",
        "KERAS_BACKEND": "tensorflow",
        "CUDA_VISIBLE_DEVICES": "",
        "TF_CPP_MIN_LOG_LEVEL": "3",
    }
    module = ["-P", "-m", "benchmarks.same_numbers.worker", str(version)]
    done = subprocess.run(
        [sys.executable, *module, *map(str, words)],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    )
    if done.returncode:
        raise SystemExit(f"{done.stdout}\n{name}: {words[0]} failed, see above")


def main() -> None:
    """Runs the comparison."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--against", required=True, metavar="COMMIT")
    parser.add_argument(
        "--model-dir", nargs="+", type=pathlib.Path, default=[], metavar="DIR",
        help="further trained models whose translations and exports are compared",
    )  # fmt: skip
    options = parser.parse_args()
    models = [path.resolve() for path in options.model_dir]
    with tempfile.TemporaryDirectory() as directory:
        work = pathlib.Path(directory)
        files, other = work / "files", work / "version"
        extract(options.against, other)
        run_worker(other, options.against, "write", files)
        numbers = []
        for version, name in ((other, options.against), (ROOT, "this version")):
            output = work / f"numbers-{len(numbers)}"
            run_worker(version, name, "dump", files, output, *models)
            numbers.append(read_numbers(output))
    comparisons = compare(*numbers)
    print("\n".join([*table(comparisons), "", *details(comparisons)]))
    sys.exit(any(comparison.is_wrong for comparison in comparisons))


if __name__ == "__main__":
    main()
