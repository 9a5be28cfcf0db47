"""What each ingredient of a training recipe costs: the time and the memory of its training step.

    python -m benchmarks.ingredients --source F --target F [--alignments F] [--preset tiny]
        [--dtype float32] [--threads 1] [--rounds 5] [--steps 8]

Trains the same model with one ingredient at a time, on batches that the training pipeline makes
with it, all from the same pairs in the same order, and takes turns between them. Each has a process
of its own. Without `--alignments`, guided alignment is left out. Prints a table in Markdown with
the medians of time per step relative to training without any, and the peak memory.
"""

import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time
from typing import Any

import tqdm

from tf_transformer.presets import PRESETS

PLAIN = "none"
GUIDED = "guided alignment"
# Name: settings that switch it on.
INGREDIENTS: dict[str, dict[str, Any]] = {
    PLAIN: {},
    "subword regularization": {"data.subword_dropout": 0.05},
    "noise": {
        "data.noise.upper": 0.02,
        "data.noise.title": 0.02,
        "data.noise.no_end": 0.05,
        "data.noise.typos": 0.005,
        "data.noise.copies": 0.05,
    },
    "moving averages": {"optimization.average_decay": 0.999},
    "R-Drop": {"optimization.r_drop": 5},
    GUIDED: {"model.alignment_head": 0},
    "LoRA, rank 8": {"lora.rank": 8},
    "frozen encoder": {"optimization.frozen": ["encoder/*"]},
}


def serve(name: str, options: argparse.Namespace) -> None:
    """Runs as many training steps as each line on standard input says.

    Answers each with a line: the seconds, and the peak memory of the process in bytes.
    """
    step = _make_step(name, options)
    step()
    for line in sys.stdin:
        start = time.perf_counter()
        for _ in range(int(line)):
            step()
        print(json.dumps([time.perf_counter() - start, _peak_memory()]), flush=True)


def _make_step(name, options):
    import tensorflow as tf

    from tf_transformer.text.text_file import TextFile
    from tf_transformer.text.tokenizer import Tokenizer
    from training.data.augmentation import augment
    from training.data.text_pair import TextPair
    from training.malloc import keep_freed_memory
    from training.model import build_model
    from training.settings import make_config, read_settings

    keep_freed_memory()
    tf.config.threading.set_intra_op_parallelism_threads(options.threads)
    tf.config.threading.set_inter_op_parallelism_threads(options.threads)
    tf.keras.utils.set_random_seed(1)
    settings = {"preset": options.preset, "optimization.dtype": options.dtype}
    config = make_config(read_settings(None, settings | INGREDIENTS[name]))
    is_guided = name == GUIDED
    pair = TextPair(
        TextFile.parse(str(options.source)),
        TextFile.parse(str(options.target)),
        TextFile.parse(str(options.alignments)) if is_guided else None,
    )
    tokenizer = Tokenizer(options.vocabulary.read_bytes())
    corpus = pair.tokenized((tokenizer, tokenizer), config.data)
    batches = augment(corpus.training_batches(1), config.data, tokenizer, tokenizer, 1, 0)
    model = build_model(config, *[tokenizer.vocab_size] * 2, is_guided=is_guided)
    train_step = tf.function(model.train_step, reduce_retracing=True, autograph=False)
    iterator = iter(batches.prefetch(tf.data.AUTOTUNE))
    return lambda: train_step(next(iterator))["loss"].numpy()


def _peak_memory():
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def _write_vocabulary(options, path):
    from tf_transformer.text.text_file import TextFile
    from training.config import VocabularyConfig
    from training.data.vocabulary import train_vocabularies

    source, target = (TextFile.parse(str(file)) for file in (options.source, options.target))
    model, _ = train_vocabularies([source], [target], VocabularyConfig(size=options.vocab_size))
    path.write_bytes(model)


def _measure(options):
    """Returns the seconds per step of each ingredient by round, and its peak memory."""
    names = [name for name in INGREDIENTS if options.alignments or name != GUIDED]
    arguments = [sys.executable, "-m", "benchmarks.ingredients", *sys.argv[1:]]
    arguments += ["--vocabulary", str(options.vocabulary), "--ingredient"]
    workers = {
        name: subprocess.Popen(
            [*arguments, name],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=None if options.verbose else subprocess.DEVNULL,
            text=True,
        )
        for name in names
    }

    def run(name, steps):
        worker = workers[name]
        print(steps, file=worker.stdin, flush=True)
        line = worker.stdout.readline()
        if not line:
            sys.exit(f"{name}: ended unexpectedly; use --verbose to see its output")
        seconds, memory = json.loads(line)
        return seconds / steps, memory

    seconds, memory = {name: [] for name in names}, {}
    try:
        for name in tqdm.tqdm(names, "starting"):
            run(name, 2)
        for _ in tqdm.trange(options.rounds, desc="rounds"):
            for name in names:
                found, memory[name] = run(name, options.steps)
                seconds[name].append(found)
    finally:
        for worker in workers.values():
            worker.kill()
    return seconds, memory


def main() -> None:
    """Runs the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--source", type=pathlib.Path, required=True)
    parser.add_argument("--target", type=pathlib.Path, required=True)
    parser.add_argument("--alignments", type=pathlib.Path)
    parser.add_argument("--preset", choices=PRESETS, default="tiny")
    parser.add_argument("--dtype", choices=("float32", "mixed_bfloat16"), default="float32")
    parser.add_argument("--vocab-size", type=int, default=8000)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=8, help="of each in each round")
    parser.add_argument("--verbose", action="store_true")
    parser.add_argument("--vocabulary", type=pathlib.Path, help=argparse.SUPPRESS)
    parser.add_argument("--ingredient", choices=INGREDIENTS, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.ingredient:
        return serve(options.ingredient, options)
    with tempfile.TemporaryDirectory() as directory:
        options.vocabulary = pathlib.Path(directory) / "vocabulary.model"
        _write_vocabulary(options, options.vocabulary)
        seconds, memory = _measure(options)
    print("| ingredient | ms per step | relative | peak memory, MB |\n|---|---|---|---|")
    for name, rounds in seconds.items():
        ratios = [own / base for own, base in zip(rounds, seconds[PLAIN], strict=True)]
        print(
            f"| {name} | {1000 * statistics.median(rounds):.0f} | {statistics.median(ratios):.2f} "
            f"| {memory[name] / 1e6:.0f} |"
        )


if __name__ == "__main__":
    main()
