"""Translating a large file in bulk, killed again and again, beside an undisturbed run.

    python -m benchmarks.bulk --directory DIR --saved-model served/1 --source train.en
        [--lines 1000000] [--kills 20] [--model-dir MODEL]

The file has N lines made from those of --source: the sentences in a random order, each with a
number of its own. It is translated by `translate --saved-model ... --runner direct`, or, with
--model-dir, by `translate --model-dir`; once undisturbed, and once with SIGKILL at random moments
and the same command again. Prints the sentences per second, and whether the results are equal and
complete. Outputs are removed.
"""

import argparse
import hashlib
import pathlib
import random
import sys
import time

from benchmarks.killed_runs import run_killed


def write_source(path: pathlib.Path, source: pathlib.Path, num_lines: int) -> None:
    """Writes sentences in a random order, each with a number of its own."""
    draw = random.Random(1)
    sentences = source.read_text(encoding="utf-8").splitlines()
    with open(path, "w", encoding="utf-8") as file:
        for number in range(num_lines):
            file.write(f"{draw.choice(sentences)} {number}\n")


def digest(path: pathlib.Path) -> tuple[str, int]:
    """Returns a digest of a file, and its number of lines."""
    with open(path, "rb") as file:
        found = hashlib.file_digest(file, "blake2b").hexdigest()
        file.seek(0)
        return found, sum(1 for _ in file)


def main() -> None:
    """Runs the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--directory", type=pathlib.Path, required=True, metavar="DIR")
    model = parser.add_mutually_exclusive_group(required=True)
    model.add_argument("--saved-model", metavar="DIR")
    model.add_argument("--model-dir", metavar="DIR")
    parser.add_argument("--source", type=pathlib.Path, required=True, metavar="F")
    parser.add_argument("--lines", type=int, default=1_000_000, metavar="N")
    parser.add_argument("--kills", type=int, default=20, metavar="N")
    options = parser.parse_args()
    options.directory.mkdir(parents=True, exist_ok=True)
    source = options.directory / f"{options.lines}.source"
    write_source(source, options.source, options.lines)
    command = [sys.executable, "-m", "tf_transformer", "translate", "--input", str(source)]
    if options.saved_model:
        command += ["--saved-model", options.saved_model, "--runner", "direct", "--beam-size", "1"]
    else:
        command += ["--model-dir", options.model_dir, "--beam-size", "1"]
    print("| | seconds | sentences/s | lines | the same |\n|---|---|---|---|---|", flush=True)
    first, seconds, draw = None, 0.0, random.Random(5)
    for num_kills in (0, options.kills):
        output = options.directory / f"{options.lines}-{num_kills}-{time.time_ns()}"
        waits = [draw.uniform(0.3, 1.3) * seconds / num_kills for _ in range(num_kills)]
        seconds, kills = run_killed([*command, "--output", str(output)], waits)
        found, num_lines = digest(output)
        output.unlink()
        first = first or found
        cells = [f"{kills} kills", f"{seconds:,.0f}", f"{options.lines / seconds:,.0f}"]
        cells += [f"{num_lines:,}", "yes" if found == first else "NO"]
        print(f"| {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
