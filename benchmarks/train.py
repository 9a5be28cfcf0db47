"""Training speed compared with other toolkits, on the same batches.

    python -m benchmarks.train --source F --target F [--opennmt PYTHON] [--presets tiny base]
        [--threads 1 2] [--rounds 5] [--steps 3] [--batch-tokens 4096] [--memory]

This project's pipeline makes batches from the files, with a vocabulary of 8,000 pieces, and all
systems train on these. `--opennmt` is the Python of a separate environment with OpenNMT-tf 2.32 and
TensorFlow 2.13; without it OpenNMT-tf is left out.

Every system runs in its own process, first alone with each number of threads, of which the better
one is used. Then the systems alternate with the same steps in each round, so that changes in the
machine's load affect all alike. TensorFlow's matrix products run in the same rounds. A system's
speed relative to them counts the products that it computes: over all positions including padding,
except for this project, which skips padding. Prints tables in Markdown with medians.
"""

import argparse
import dataclasses
import json
import math
import pathlib
import statistics
import subprocess
import sys
import tempfile

import numpy as np
import tqdm

from tf_transformer.presets import PRESETS

FLOAT32, BFLOAT16 = "float32", "mixed_bfloat16"
OPENNMT = "OpenNMT-tf"
# Name: class in `train_worker.py`, dtypes.
SYSTEMS = {
    "tf_transformer": ("Own", (FLOAT32, BFLOAT16)),
    OPENNMT: ("OpenNMT", (FLOAT32,)),
    "PyTorch": ("Torch", (FLOAT32, BFLOAT16)),
    "KerasHub": ("KerasHub", (FLOAT32, BFLOAT16)),
    "products alone": ("Peak", (FLOAT32, BFLOAT16)),
}
PRODUCTS = "products alone"
# The system that skips padding.
PACKED = "tf_transformer"


def write_batches(options: argparse.Namespace) -> None:
    """Writes batches and sizes; run in a separate process, which frees its memory."""
    import tensorflow as tf

    from tf_transformer.config import TransformerConfig
    from tf_transformer.text.text_file import TextFile
    from tf_transformer.text.tokenizer import Tokenizer
    from training.config import DataConfig, VocabularyConfig
    from training.data.pipeline import ParallelText
    from training.data.vocabulary import train_vocabularies

    tf.keras.utils.set_random_seed(1)
    source, target = (TextFile.parse(str(path)) for path in (options.source, options.target))
    model, _ = train_vocabularies([source], [target], VocabularyConfig(size=options.vocab_size))
    tokenizer = Tokenizer(model)
    data = DataConfig(batch_tokens=options.batch_tokens)
    corpus = ParallelText(source, target, tokenizer, tokenizer, data)
    arrays = {}
    for index, (inputs, labels) in enumerate(corpus.training_batches(1).take(options.batches)):
        arrays[f"source{index}"] = inputs["source"].numpy()
        arrays[f"target{index}"] = inputs["target"].numpy()
        arrays[f"labels{index}"] = labels.numpy()
    np.savez(options.write / "batches.npz", **arrays)
    sizes = {}
    for name in options.presets:
        config = TransformerConfig.preset(
            name, source_vocab_size=options.vocab_size, target_vocab_size=options.vocab_size
        )
        sizes[name] = dataclasses.asdict(config)
    (options.write / "sizes.json").write_text(json.dumps(sizes))


class Worker:
    """A system in its own process."""

    def __init__(self, name: str, dtype: str, threads: int, preset: str, vocab_size: int, options):
        self.name, self.dtype, self.threads, self.memory = name, dtype, threads, 0
        self.seconds, self.gflops = [], []
        settings = {
            "kind": SYSTEMS[name][0],
            "dtype": dtype,
            "threads": threads,
            "preset": preset,
            "vocab_size": vocab_size,
            "directory": str(options.write),
            "sizes": json.loads((options.write / "sizes.json").read_text())[preset],
        }
        python = str(options.opennmt) if name == OPENNMT else sys.executable
        self._process = subprocess.Popen(
            [python, "-m", "benchmarks.train_worker", json.dumps(settings)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=None if options.verbose else subprocess.DEVNULL,
            text=True,
        )

    def run(self, steps: int) -> float:
        """Runs steps and returns the seconds they took."""
        self._process.stdin.write(f"{steps}\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(
                f"{self.name}, {self.dtype}, ended unexpectedly; use --verbose to see its output"
            )
        answer = json.loads(line)
        if not math.isfinite(answer["loss"]):
            raise RuntimeError(
                f"{self.name}, {self.dtype}: expected a finite loss. Received: {answer['loss']}"
            )
        self.memory = answer["memory"]
        if answer["gflops"]:
            self.gflops.append(answer["gflops"])
        return answer["seconds"]

    def measure(self, steps: int) -> None:
        self.seconds.append(self.run(steps) / steps)

    def close(self) -> None:
        self._process.kill()
        self._process.wait()


class Batches:
    """The saved batches and their statistics."""

    def __init__(self, options: argparse.Namespace):
        arrays = np.load(options.write / "batches.npz")
        self.count, self._arrays = len(arrays.files) // 3, arrays

    def tokens(self, side: str) -> float:
        """Returns the mean number of real tokens per batch."""
        return statistics.mean(
            int(np.count_nonzero(self._arrays[f"{side}{index}"])) for index in range(self.count)
        )

    def padding(self) -> float:
        """Returns the share of padding in the positions of both sides."""
        arrays = [array for name, array in self._arrays.items() if not name.startswith("target")]
        return 1 - sum(map(np.count_nonzero, arrays)) / sum(array.size for array in arrays)

    def gflop(self, sizes: dict, vocab_size: int, is_packed: bool) -> float:
        """Returns the mean operations in the products of a step: forward, and twice that backward.

        Args:
            sizes: settings of the model.
            vocab_size: size of the vocabulary.
            is_packed: whether padding is skipped in all products but those of attention.
        """
        d_model, d_ff = sizes["d_model"], sizes["d_ff"]
        total = 0
        for index in range(self.count):
            ids = [self._arrays[f"{side}{index}"] for side in ("source", "labels")]
            rows, source, target = len(ids[0]), ids[0].shape[1], ids[1].shape[1]
            sources, targets = (np.count_nonzero(x) if is_packed else x.size for x in ids)
            encoder = sources * (4 * d_model + 2 * d_ff) + 2 * rows * source * source
            decoder = targets * (6 * d_model + 2 * d_ff) + 2 * sources * d_model
            decoder += 2 * rows * target * (target + source)
            layers = sizes["num_encoder_layers"] * encoder + sizes["num_decoder_layers"] * decoder
            total += d_model * (layers + targets * vocab_size)
        return 6e-9 * total / self.count


def better_threads(name: str, dtype: str, preset: str, options) -> int:
    """The number of threads with which the system is faster, alone."""
    if len(options.threads) == 1:
        return options.threads[0]
    seconds = {}
    for threads in options.threads:
        worker = Worker(name, dtype, threads, preset, options.vocab_size, options)
        worker.run(1)  # the first is warm-up
        for _ in range(2):
            worker.measure(options.steps)
        worker.close()
        seconds[threads] = min(worker.seconds)
    return min(seconds, key=seconds.get)


def table(workers: list[Worker], batches: Batches, sizes: dict, vocab_size: int) -> list[str]:
    """Returns a table of medians over the rounds."""
    peaks = {worker.dtype: statistics.median(worker.gflops) for worker in workers if worker.gflops}
    reference = {(worker.name, worker.dtype): worker for worker in workers}.get((OPENNMT, FLOAT32))
    lines = [
        "| system | dtype | threads | target tokens/s | source tokens/s | over OpenNMT-tf "
        "| GFLOP/s | of products | memory |",
        "|---" * 9 + "|",
    ]
    for worker in workers:
        dtype = "bfloat16" if worker.dtype == BFLOAT16 else "float32"
        if worker.gflops:
            speeds = ["-", "-", "-", f"{peaks[worker.dtype]:.0f}", "100 %", "-"]
        else:
            seconds = statistics.median(worker.seconds)
            gflops = batches.gflop(sizes, vocab_size, worker.name == PACKED) / seconds
            # Compared round by round: both systems had the same batches and a similar load.
            ratio = "-"
            if reference is not None:
                pairs = zip(reference.seconds, worker.seconds, strict=True)
                ratio = f"{statistics.median(theirs / ours for theirs, ours in pairs):.2f}"
            share = f"{gflops / peaks[worker.dtype]:.0%}" if worker.dtype in peaks else "-"
            speeds = [
                f"{batches.tokens('labels') / seconds:,.0f}",
                f"{batches.tokens('source') / seconds:,.0f}",
                ratio,
                f"{gflops:.0f}",
                share.replace("%", " %"),
                f"{worker.memory / 1e9:.1f} GB",
            ]
        cells = [worker.name, dtype, str(worker.threads), *speeds]
        lines.append("| " + " | ".join(cells) + " |")
    return lines


def chosen(options: argparse.Namespace) -> list[tuple[str, str]]:
    """Returns the selected systems with their dtypes."""
    return [
        (name, dtype)
        for name in options.systems
        for dtype in SYSTEMS[name][1]
        if dtype in options.dtypes and (name != OPENNMT or options.opennmt)
    ]


def compare(preset: str, batches: Batches, options: argparse.Namespace) -> list[str]:
    """Measures all systems with one preset and returns the table."""
    sizes = json.loads((options.write / "sizes.json").read_text())[preset]
    threads = {
        (name, dtype): better_threads(name, dtype, preset, options)
        for name, dtype in tqdm.tqdm(chosen(options), desc=f"{preset}, threads", disable=None)
    }
    workers = []
    for (name, dtype), num_threads in threads.items():
        workers.append(Worker(name, dtype, num_threads, preset, options.vocab_size, options))
        workers[-1].run(1)  # warm-up
    for _ in tqdm.trange(options.rounds, desc=preset, unit=" rounds", disable=None):
        for worker in workers:
            worker.measure(options.steps)
    for worker in workers:
        worker.close()
    return table(workers, batches, sizes, options.vocab_size)


def memory(preset: str, options: argparse.Namespace) -> list[str]:
    """Returns peak memory with a large vocabulary; the batches use only its first pieces."""
    systems = [pair for pair in chosen(options) if pair[0] != PRODUCTS]
    lines = [f"| {preset}, {options.memory:,} pieces | dtype | memory |", "|---|---|---|"]
    for name, dtype in tqdm.tqdm(systems, desc="memory", disable=None):
        worker = Worker(name, dtype, options.threads[-1], preset, options.memory, options)
        worker.run(3)
        worker.close()
        shown = "bfloat16" if dtype == BFLOAT16 else "float32"
        lines.append(f"| {name} | {shown} | {worker.memory / 1e9:.1f} GB |")
    return lines


def run(options: argparse.Namespace) -> None:
    """Measures all presets and the memory, and prints the tables."""
    batches = Batches(options)
    if not options.opennmt:
        print("OpenNMT-tf is left out, because --opennmt is not given.\n")
    print(
        f"{batches.count} batches of {batches.tokens('labels'):,.0f} target and "
        f"{batches.tokens('source'):,.0f} source tokens on average, {batches.padding():.1%} padding"
    )
    for preset in options.presets if options.rounds else ():
        lines = compare(preset, batches, options)
        print("\n".join(["", f"{preset}:", "", *lines]), flush=True)
    if options.memory:
        print("\n".join(["", *memory(options.presets[-1], options)]))


def check(parser: argparse.ArgumentParser, options: argparse.Namespace) -> None:
    """Exits with one line if files are missing or options are invalid."""
    for path in (options.source, options.target):
        if not path.is_file():
            parser.error(f"{path}: no such file")
    if options.systems == [OPENNMT] and not options.opennmt:
        parser.error("OpenNMT-tf needs --opennmt, the Python of its environment")
    for name in ("steps", "batches", "batch_tokens"):
        if getattr(options, name) < 1:
            parser.error(f"--{name.replace('_', '-')}: expected at least 1")


def main() -> None:
    """Runs the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--source", type=pathlib.Path, required=True)
    parser.add_argument("--target", type=pathlib.Path, required=True)
    parser.add_argument("--opennmt", type=pathlib.Path, help="Python with OpenNMT-tf")
    parser.add_argument("--presets", nargs="+", choices=PRESETS, default=["tiny", "base"])
    parser.add_argument("--systems", nargs="+", choices=SYSTEMS, default=list(SYSTEMS))
    parser.add_argument(
        "--dtypes", nargs="+", choices=[FLOAT32, BFLOAT16], default=[FLOAT32, BFLOAT16]
    )
    parser.add_argument("--threads", nargs="+", type=int, default=[1, 2])
    parser.add_argument("--rounds", type=int, default=5, help="0: only memory")
    parser.add_argument("--steps", type=int, default=3, help="steps per round")
    parser.add_argument("--batches", type=int, default=10)
    parser.add_argument("--batch-tokens", type=int, default=4096)
    parser.add_argument("--vocab-size", type=int, default=8000)
    parser.add_argument(
        "--memory", type=int, default=32_000, help="vocabulary size of the memory test; 0: none"
    )
    parser.add_argument("--verbose", action="store_true", help="show the output of the systems")
    parser.add_argument("--write", type=pathlib.Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    check(parser, options)
    if options.write:
        write_batches(options)
        return
    with tempfile.TemporaryDirectory() as directory:
        options.write = pathlib.Path(directory)
        words = [sys.executable, "-m", "benchmarks.train", *sys.argv[1:], "--write", directory]
        subprocess.run(words, check=True)
        run(options)


if __name__ == "__main__":
    main()
