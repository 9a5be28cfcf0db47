"""Speed and memory of preparing a large corpus and of making batches from it.

    python -m benchmarks.prepare --directory DIR [--pairs 20000000] [--processes N] [--seconds 30]

Generates a corpus of N pairs, with every hundredth pair duplicated, and prepares it with the
command `prepare`. Then makes batches from the prepared folder and from the raw text, and trains
`tiny` on such batches. Prints tables in Markdown. Memory is the resident memory of all processes
together; the first ten batches are not measured. DIR needs about 300 bytes per pair. The generated
files are kept there and used again by the same command.
"""

import argparse
import os
import pathlib
import random
import subprocess
import sys
import threading
import time
from collections.abc import Iterable

import tqdm

from tf_transformer.command_line.quiet import import_tensorflow

# Pairs generated at a time, and batches before the measurement starts.
_AT_ONCE = 100_000
_WARM_UP = 10


def generate(directory: pathlib.Path, num_pairs: int) -> list[pathlib.Path]:
    """Writes sentences of two to six out of 100,000 phrases, each of three invented words."""
    directory.mkdir(parents=True, exist_ok=True)
    paths = [directory / f"{num_pairs}.{side}" for side in ("source", "target")]
    if (directory / f"{num_pairs}.done").exists():
        return paths
    draw = random.Random(1)
    syllables = [first + second for first in "bdfgklmnprstvz" for second in "aeiouäöü"]
    words = ["".join(draw.choices(syllables, k=draw.randint(1, 4))) for _ in range(20_000)]
    # As in language, some words are far more frequent than others.
    weights = [1 / rank for rank in range(1, len(words) + 1)]
    drawn = iter(draw.choices(words, weights, k=300_000))
    phrases = [" ".join(three) for three in zip(drawn, drawn, drawn, strict=True)]
    with open(paths[0], "w") as source, open(paths[1], "w") as target:
        for start in tqdm.tqdm(
            range(0, num_pairs, _AT_ONCE), "generating", leave=False, disable=None
        ):
            count = min(_AT_ONCE, num_pairs - start)
            for file in (source, target):
                lines = [
                    " ".join(draw.choices(phrases, k=length))
                    for length in draw.choices(range(2, 7), k=count)
                ]
                lines[99::100] = lines[98::100][: len(lines[99::100])]
                file.write("\n".join(lines) + "\n")
    (directory / f"{num_pairs}.done").touch()
    return paths


class Memory(threading.Thread):
    """Records the resident megabytes of a process and its children twice per second."""

    def __init__(self, process: int):
        super().__init__(daemon=True)
        self.samples = []
        self._process = process
        self._ended = threading.Event()

    def run(self):
        while not self._ended.wait(0.5):
            self.samples.append(_resident_of_all(self._process))

    def stop(self) -> None:
        """Stops recording."""
        self._ended.set()

    def by_quarters(self) -> str:
        """Returns the peak in each quarter of the time."""
        quarter = max(1, -(-len(self.samples) // 4))
        starts = range(0, len(self.samples), quarter)
        return ", ".join(f"{max(self.samples[at : at + quarter]):,.0f}" for at in starts)


def _resident_of_all(process: int) -> float:
    parents, resident = {}, {}
    for path in pathlib.Path("/proc").glob("[0-9]*/status"):
        try:
            fields = dict(
                line.split(":", 1) for line in path.read_text().splitlines() if ":" in line
            )
        except OSError:  # the process has ended
            continue
        process_id = int(fields["Pid"])
        parents[process_id] = int(fields["PPid"])
        resident[process_id] = int(fields.get("VmRSS", "0 kB").split()[0]) / 1000
    family = {process}
    while more := {child for child, parent in parents.items() if parent in family} - family:
        family |= more
    return sum(resident.get(process_id, 0) for process_id in family)


def prepare(paths: list[pathlib.Path], options: argparse.Namespace) -> tuple[pathlib.Path, str]:
    """Runs the command with a new output folder; returns the folder and a row of the table."""
    output = options.directory / f"{options.pairs}-prepared-{time.time_ns()}"
    command = [sys.executable, "-m", "tf_transformer", "prepare", "--output", str(output)]
    command += ["--source", str(paths[0]), "--target", str(paths[1])]
    if options.processes:
        command += ["--processes", str(options.processes)]
    start = time.perf_counter()
    process = subprocess.Popen(command)
    memory = Memory(process.pid)
    memory.start()
    if process.wait():
        raise SystemExit(process.returncode)
    seconds = time.perf_counter() - start
    memory.stop()
    cells = [f"{options.pairs:,}", f"{seconds:,.0f}", f"{options.pairs / seconds:,.0f}"]
    return output, f"| {' | '.join(cells)} | {memory.by_quarters()} |"


def measure(name: str, batches: Iterable, seconds: float) -> tuple[float, str]:
    """Returns the target tokens per second of a stream of batches, and the memory by quarters."""
    memory = Memory(os.getpid())
    stream = iter(batches)
    for _ in range(_WARM_UP):
        next(stream)
    tokens, start = 0, time.perf_counter()
    with tqdm.tqdm(desc=name, unit=" tokens", leave=False) as progress:
        while (passed := time.perf_counter() - start) < seconds:
            _, labels = next(stream)
            count = int((labels != 0).sum())
            tokens += count
            progress.update(count)
            if not memory.samples or passed > len(memory.samples) * seconds / 40:
                memory.samples.append(_resident_of_all(os.getpid()))
    return tokens / (time.perf_counter() - start), memory.by_quarters()


def train_tiny(prepared) -> Iterable:
    """Trains `tiny` on batches and yields each batch after its step."""
    import tensorflow as tf

    from tf_transformer.text.tokenizer import Tokenizer
    from training.model import build_model
    from training.settings import make_config

    config = make_config({"preset": "tiny"})
    model = build_model(config, *(Tokenizer(model).vocab_size for model in prepared.models))
    step = tf.function(model.train_step, reduce_retracing=True)
    for batch in prepared.training_batches(1):
        step(batch)
        yield batch[0], batch[1].numpy()


def main() -> None:
    """Runs the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--directory", type=pathlib.Path, required=True, metavar="DIR")
    parser.add_argument("--pairs", type=int, default=20_000_000, metavar="N")
    parser.add_argument("--processes", type=int, metavar="N")
    parser.add_argument("--seconds", type=float, default=30, metavar="S", help="for each stream")
    options = parser.parse_args()
    paths = generate(options.directory, options.pairs)
    output, row = prepare(paths, options)
    print(
        "\n| pairs | seconds | pairs/s | peak MB in each quarter of the time |\n|---|---|---|---|"
    )
    print(row, flush=True)

    import_tensorflow()
    from tf_transformer.text.text_file import TextFile
    from tf_transformer.text.tokenizer import Tokenizer
    from training.config import DataConfig
    from training.data.pipeline import ParallelText
    from training.prepared.prepared_folder import PreparedFolder
    from training.prepared.prepared_text import PreparedText

    prepared = PreparedText([PreparedFolder(output)], DataConfig())
    raw = ParallelText(*map(TextFile, paths), *map(Tokenizer, prepared.models), DataConfig())
    print("\n| | target tokens/s | relative to `tiny` | peak MB in each quarter of the time |")
    print("|---|---|---|---|")
    tiny = None
    for name, batches in (
        ("`tiny` trains", train_tiny(prepared)),
        ("batches from prepared shards", prepared.training_batches(1).as_numpy_iterator()),
        ("batches from raw text", raw.training_batches(1).as_numpy_iterator()),
    ):
        speed, memory = measure(name, batches, options.seconds)
        tiny = tiny or speed
        print(f"| {name} | {speed:,.0f} | {speed / tiny:.1f} | {memory} |", flush=True)


if __name__ == "__main__":
    main()
