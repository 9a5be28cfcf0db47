"""Where the start of a SavedModel goes: seconds and memory of TensorFlow alone, and of the model.

    python -m benchmarks.cold_start exported exported-xla --rounds 3

Each folder is an export. A process of its own, pinned to one processor, goes through the stages:
imports, a first operation, loading, the first translation, the same once more. Shows medians over
the rounds, in which the folders take turns.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import time

from benchmarks.engines.worker import peak_memory

# The first three are TensorFlow alone, the last is no part of the start.
_STAGES = (
    "import of TensorFlow",
    "import of TensorFlow Text",
    "first operation",
    "loading",
    "first translation",
    "second translation",
)
_OF_TENSORFLOW = 3
_OF_START = 5


def main() -> None:
    """Prints a table of the stages of each export."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.cold_start", description=__doc__)
    parser.add_argument("folders", nargs="+", type=pathlib.Path, metavar="DIR", help="exports")
    parser.add_argument("--sentence", default="The meeting is on 5 May.", metavar="TEXT")
    parser.add_argument("--rounds", type=int, default=3, metavar="N")
    options = parser.parse_args()
    rounds = [
        [_run(folder, options.sentence) for folder in options.folders]
        for _ in range(options.rounds)
    ]
    for index, folder in enumerate(options.folders):
        print(f"\n{folder}")
        print("\n".join(table([of_folders[index] for of_folders in rounds])))


def table(runs: list[list[dict[str, float]]]) -> list[str]:
    """Returns a table in Markdown of the medians over runs.

    Args:
        runs: seconds and peak of the memory in bytes at the end of each stage, a list a run.
    """
    seconds, megabytes = (
        [statistics.median(run[stage][name] for run in runs) for stage in range(len(_STAGES))]
        for name in ("seconds", "memory")
    )
    megabytes = [memory / 2**20 for memory in megabytes]
    rows = list(zip(_STAGES, seconds, megabytes, strict=True))
    own_seconds = sum(seconds[_OF_TENSORFLOW:_OF_START])
    own_memory = megabytes[_OF_START - 1] - megabytes[_OF_TENSORFLOW - 1]
    return [
        "| stage | s | peak MB |",
        "|---|---|---|",
        *(f"| {stage} | {duration:.3f} | {memory:.0f} |" for stage, duration, memory in rows),
        f"| share of the model in the start | {own_seconds / sum(seconds[:_OF_START]):.0%} "
        f"| {own_memory / megabytes[_OF_START - 1]:.0%} |",
    ]


def _run(folder, sentence):
    words = [sys.executable, "-m", "benchmarks.cold_start", "--worker", str(folder), sentence]
    environment = os.environ | {"TF_CPP_MIN_LOG_LEVEL": "3"}
    done = subprocess.run(words, env=environment, check=True, capture_output=True, text=True)
    return json.loads(done.stdout.splitlines()[-1])


def _work(folder, sentence):
    """Goes through the stages, and prints what each took."""
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:1])
    found = []
    before = time.perf_counter()

    def finish_stage():
        nonlocal before
        now = time.perf_counter()
        found.append({"seconds": now - before, "memory": peak_memory()})
        before = now

    import tensorflow as tf

    finish_stage()
    import tensorflow_text  # noqa: F401  registers the tokenizer's ops

    finish_stage()
    tf.function(lambda text: tf.strings.length(text))(tf.constant(["a"])).numpy()
    finish_stage()
    newest = max(pathlib.Path(folder).glob("[0-9]*"), key=lambda path: int(path.name))
    loaded = tf.saved_model.load(str(newest))
    signature = loaded.signatures["serving_default"]
    finish_stage()
    for _ in range(2):
        signature(text=tf.constant([sentence]))["translation"].numpy()
        finish_stage()
    print(json.dumps(found))


if __name__ == "__main__":
    if sys.argv[1:2] == ["--worker"]:
        _work(*sys.argv[2:])
    else:
        main()
