"""Speed of this version relative to that of another commit.

    python -m benchmarks.same_speed --against 1c712d8 [--rounds 5] [--presets tiny base]

Both versions train on the generated corpus of `demo` and export the same model; their processes
and requests alternate. Prints, in Markdown, the medians of the time of a training step and of a
request to the SavedModel, and the median of the ratios of neighbouring measurements.
"""

import argparse
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator

from benchmarks.versions import ROOT, extract

STEPS, REPORT_EVERY = 30, 5
BATCH_TOKENS = {"tiny": 4096, "base": 1024}
BATCH_SIZES = (1, 32)


def run_command(version: pathlib.Path, *words: str | pathlib.Path) -> None:
    """Runs `tf-transformer` with the packages in a folder."""
    environment = os.environ | {"PYTHONPATH": str(version), "CUDA_VISIBLE_DEVICES": ""}
    command = [sys.executable, "-P", "-m", "tf_transformer", *map(str, words)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{done.stderr}\n{words[0]} failed with the packages in {version}")


def step_seconds(
    version: pathlib.Path, data: pathlib.Path, model: pathlib.Path, preset: str
) -> float:
    """Trains a model; returns the median of the reported seconds per step but the first."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    from tensorboard.util.tensor_util import make_ndarray

    settings = {
        "optimization.checkpoint_every": STEPS,
        "validation.translate_every": 0,
        "validation.report_every": REPORT_EVERY,
        "vocabulary.size": 1000,
        "data.batch_tokens": BATCH_TOKENS[preset],
    }
    run_command(
        version,
        *("train", "--source", data / "train.en", "--target", data / "train.de"),
        *("--validation-source", data / "validation.en"),
        *("--validation-target", data / "validation.de", "--model-dir", model),
        *("--preset", preset, "--steps", STEPS, "--set"),
        *(f"{name}={value}" for name, value in settings.items()),
    )
    events = EventAccumulator(str(model / "logs" / "training"), size_guidance={"tensors": 0})
    events.Reload()
    reports = events.Tensors("speed/step_seconds")
    return statistics.median(float(make_ndarray(report.tensor_proto)) for report in reports[1:])


def load_signature(version: pathlib.Path, model: pathlib.Path, served: pathlib.Path) -> Callable:
    """Exports a model and loads the SavedModel's signature of strings."""
    import tensorflow as tf
    import tensorflow_text  # noqa: F401  registers the tokenizer's ops

    signatures = ("--signatures", "serving_default")
    run_command(version, "export", "--model-dir", model, "--output", served, *signatures)
    return tf.saved_model.load(str(served / "1")).signatures["serving_default"]


def request_seconds(signature: Callable, sentences: list[str]) -> float:
    """Returns the seconds that one request takes."""
    import tensorflow as tf

    text = tf.constant(sentences)
    begin = time.perf_counter()
    signature(text)["translation"].numpy()
    return time.perf_counter() - begin


def alternate(names: list[str], rounds: int, measure: Callable[[str, int], float]) -> str:
    """Calls `measure` for each version in turn, and returns the cells of a table's row.

    Args:
        names: names of the two versions; this one is first.
        rounds: number of measurements of each.
        measure: returns the seconds, given the version's name and the index of the round.

    Returns:
        Both medians in milliseconds, and the median of the ratios; above 1, this version is faster.
    """
    seconds: dict[str, list[float]] = {name: [] for name in names}
    for index in range(rounds):
        for name in names[::-1] if index % 2 else names:
            seconds[name].append(measure(name, index))
    ours, theirs = seconds.values()
    ratio = statistics.median(b / a for a, b in zip(ours, theirs, strict=True))
    medians = [f"{1000 * statistics.median(values):.1f}" for values in (ours, theirs)]
    return f"{' | '.join(medians)} | {ratio:.3f} |"


def compare(
    versions: dict[str, pathlib.Path], preset: str, rounds: int, work: pathlib.Path
) -> Iterator[str]:
    """Yields the rows of the table for one preset."""
    names = [*versions]

    def train(name, index):
        model = work / f"{preset}-{name}-{index}"
        return step_seconds(versions[name], work / "data", model, preset)

    yield f"| `{preset}`, training step | {alternate(names, rounds, train)}"
    model = work / f"{preset}-{names[1]}-0"
    signatures = {
        name: load_signature(version, model, work / f"served-{preset}-{name}")
        for name, version in versions.items()
    }
    sentences = (work / "data" / "test.en").read_text(encoding="utf-8").splitlines()
    for batch_size in BATCH_SIZES:
        batch = sentences[:batch_size]
        for signature in signatures.values():
            request_seconds(signature, batch)  # the first request also optimizes the graph

        def request(name, _, batch=batch):
            return request_seconds(signatures[name], batch)

        cells = alternate(names, 3 * rounds, request)
        yield f"| `{preset}`, SavedModel, beam 4, {batch_size} per request | {cells}"


def main() -> None:
    """Measures both versions and prints the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--against", required=True, metavar="COMMIT")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--presets", nargs="+", choices=BATCH_TOKENS, default=[*BATCH_TOKENS])
    options = parser.parse_args()
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    from training.demo.corpus import write_demonstration

    with tempfile.TemporaryDirectory() as directory:
        work = pathlib.Path(directory)
        versions = {"this": ROOT, "other": work / "version"}
        extract(options.against, versions["other"])
        write_demonstration(work / "data", num_train=20_000, num_validation=20, num_test=32)
        print(f"| | this version, ms | {options.against}, ms | relative speed |\n|---|---|---|---|")
        for preset in options.presets:
            for row in compare(versions, preset, options.rounds, work):
                print(row, flush=True)


if __name__ == "__main__":
    main()
