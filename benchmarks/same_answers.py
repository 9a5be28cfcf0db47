"""Compares the translations that this version and another commit make with the same model.

    python -m benchmarks.same_answers --against ee044a4 --model-dir M --source F [--sentences 1000]

Extracts the packages of the other commit from git, and translates the first sentences of the file
with both versions: greedy search and a beam of 4, in float32 and int8. Prints a table in Markdown:
how many translations are equal, how many differ but have scores within 1e-4 of each other (ties),
and how many differ otherwise. The status is 1 if one does in float32; which matrices are quantized
in int8 may differ between the versions. Both read a copy of the model directory without the
settings that have their default value, which the other version may not know.
"""

import argparse
import contextlib
import dataclasses
import json
import os
import pathlib
import sys
import tempfile

from benchmarks.versions import ROOT, extract
from benchmarks.worker_process import WorkerProcess, answer_requests

TIE = 1e-4
DTYPES = ("float32", "int8")
BEAM_SIZES = (1, 4)


def work(version: pathlib.Path, model_dir: pathlib.Path) -> None:
    """Answers requests with translations and their scores, in a process of its own.

    Args:
        version: folder of the packages.
        model_dir: the model directory.
    """

    def make_answer():
        import tf_transformer
        from tf_transformer import Translator

        found = pathlib.Path(tf_transformer.__file__)
        if version not in found.parents:
            raise SystemExit(f"expected the packages in {version}, not {found}")

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


def copy_for_any_version(model_dir: pathlib.Path, folder: pathlib.Path) -> None:
    """Copies what a translator needs of a model directory, without settings of default value."""
    from tf_transformer.config import TransformerConfig

    defaults = {
        field.name: field.default
        for field in dataclasses.fields(TransformerConfig)
        if field.default is not dataclasses.MISSING
    }
    content = json.loads((model_dir / "config.json").read_text(encoding="utf-8"))
    content["model"] = {
        name: {key: x for key, x in value.items() if x is not None}
        if isinstance(value, dict)
        else value
        for name, value in content["model"].items()
        if name not in defaults or value != defaults[name]
    }
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(content), encoding="utf-8")
    for name in ("model.weights.h5", "source.spm", "target.spm"):
        (folder / name).symlink_to((model_dir / name).resolve())


def open_worker(name: str, version: pathlib.Path, model_dir: pathlib.Path) -> WorkerProcess:
    """Returns a process that translates with the packages in the folder `version`."""
    environment = os.environ | {
        "PYTHONPATH": f"{version}{os.pathsep}{ROOT}",
        "CUDA_VISIBLE_DEVICES": "-1",
    }
    # -P: without it the packages in the current folder would come first.
    words = [sys.executable, "-P", "-m", "benchmarks.same_answers", "--worker", str(version)]
    return WorkerProcess(name, [*words, "--model-dir", str(model_dir)], environment)


def main() -> None:
    """Translates with both versions and prints the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--against", metavar="COMMIT")
    parser.add_argument("--model-dir", type=pathlib.Path, required=True)
    parser.add_argument("--source", type=pathlib.Path)
    parser.add_argument("--sentences", type=int, default=1000)
    parser.add_argument("--worker", type=pathlib.Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        return work(options.worker, options.model_dir)
    if options.against is None or options.source is None:
        parser.error("--against and --source are required")
    sentences = options.source.read_text(encoding="utf-8").split("\n")[: options.sentences]
    print("| | equal | tie | different |\n|---|---|---|---|")
    differ = False
    with tempfile.TemporaryDirectory() as folder:
        other, model_dir = pathlib.Path(folder, "version"), pathlib.Path(folder, "model")
        extract(options.against, other)
        copy_for_any_version(options.model_dir, model_dir)
        with contextlib.ExitStack() as stack:
            versions = {"this version": ROOT, options.against: other}
            workers = []
            for name, version in versions.items():
                workers.append(open_worker(name, version, model_dir))
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
