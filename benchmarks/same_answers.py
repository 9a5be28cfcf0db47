"""Compares the translations that this version and another commit make with the same model.

    python -m benchmarks.same_answers --against ee044a4 --model-dir M --source F [--sentences 1000]

Extracts the packages of the other commit from git, and translates the first sentences of the file
with both versions: greedy search and a beam of 4, in float32 and int8. Prints a table in Markdown:
how many translations are equal, how many differ but have scores within 1e-4 of each other (ties),
and how many differ otherwise. The status is 1 if one does in float32; which matrices are quantized
in int8 may differ between the versions.
"""

import argparse
import contextlib
import os
import pathlib
import sys
import tempfile

from benchmarks.versions import ROOT, extract
from benchmarks.worker_process import WorkerProcess, answer_requests

TIE = 1e-4
DTYPES = ("float32", "int8")
BEAM_SIZES = (1, 4)


def work(model_dir: str) -> None:
    """Answers requests with translations and their scores, in a process of its own."""

    def make_answer():
        from tf_transformer import Translator

        def translate(request):
            settings = {name: request[name] for name in ("beam_size", "dtype")}
            found = Translator.load(model_dir, **settings).n_best(request["sentences"])
            return {"found": [(best[0].text, best[0].score) for best in found]}

        return translate

    answer_requests(make_answer)


def compare(own, other):
    """Returns how many answers are equal, how many are ties, and how many differ otherwise."""
    pairs = [(a, b) for a, b in zip(own, other, strict=True) if a[0] != b[0]]
    ties = sum(abs(a[1] - b[1]) <= TIE for a, b in pairs)
    return len(own) - len(pairs), ties, len(pairs) - ties


def open_worker(name: str, version: pathlib.Path, model_dir: str) -> WorkerProcess:
    """Returns a process that translates with the packages in the folder `version`."""
    environment = os.environ | {
        "PYTHONPATH": f"{version}{os.pathsep}{ROOT}",
        "CUDA_VISIBLE_DEVICES": "-1",
    }
    words = [sys.executable, "-m", "benchmarks.same_answers", "--worker", "--model-dir", model_dir]
    return WorkerProcess(name, words, environment)


def main() -> None:
    """Translates with both versions and prints the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--against", metavar="COMMIT")
    parser.add_argument("--model-dir", required=True)
    parser.add_argument("--source", type=pathlib.Path)
    parser.add_argument("--sentences", type=int, default=1000)
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        return work(options.model_dir)
    if options.against is None or options.source is None:
        parser.error("--against and --source are required")
    sentences = options.source.read_text(encoding="utf-8").split("\n")[: options.sentences]
    print("| | equal | tie | different |\n|---|---|---|---|")
    differ = False
    with tempfile.TemporaryDirectory() as folder:
        extract(options.against, pathlib.Path(folder))
        with contextlib.ExitStack() as stack:
            versions = {"this version": ROOT, options.against: pathlib.Path(folder)}
            workers = []
            for name, version in versions.items():
                workers.append(open_worker(name, version, options.model_dir))
                stack.callback(workers[-1].close)
            for dtype in DTYPES:
                for beam_size in BEAM_SIZES:
                    request = {"sentences": sentences, "beam_size": beam_size, "dtype": dtype}
                    answers = [worker.ask(request)["found"] for worker in workers]
                    equal, ties, others = compare(*answers)
                    search = "greedy" if beam_size == 1 else f"beam {beam_size}"
                    print(f"| {search}, {dtype} | {equal} | {ties} | {others} |", flush=True)
                    differ |= dtype == "float32" and others > 0
    sys.exit(int(differ))


if __name__ == "__main__":
    main()
