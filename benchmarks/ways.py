"""What ways to translate cost: sampling, ensembles, adapters and Minimum Bayes risk.

    python -m benchmarks.ways --model-dir model [other ...] --source test.en [--threads 1]
        [--batch-size 32] [--rounds 5] [--adapters 4] [--rank 8] [--samples 16]

Compares beam search of 4 with greedy search, one sample per sentence, an ensemble of all the
models, adapters with random weights that are chosen by row, and Minimum Bayes risk with samples.
They take turns in one process. Prints a table in Markdown with medians.
"""

import argparse
import functools
import itertools
import pathlib
import statistics
import time
from collections.abc import Callable

import tqdm

from tf_transformer.command_line.quiet import import_tensorflow
from tf_transformer.text.text_file import TextFile

BEAM = 4
PLAIN = f"beam {BEAM}"

# Translates a batch of sentences.
Way = Callable[[list[str]], object]


def make_ways(options: argparse.Namespace) -> dict[str, Way]:
    """Returns the ways to translate, by name."""
    from tf_transformer.inference.translator import Translator

    first, *others = options.model_dir
    plain = Translator.load(first, beam_size=BEAM)
    greedy = Translator.load(first, beam_size=1)
    ways: dict[str, Way] = {
        PLAIN: plain.translate_batch,
        "greedy": greedy.translate_batch,
        "a sample": _sampling(plain),
    }
    if others:
        ensemble = Translator.load(options.model_dir, beam_size=BEAM)
        ways[f"{PLAIN}, ensemble of {len(options.model_dir)}"] = ensemble.translate_batch
    name = f"{PLAIN}, each row one of {options.adapters} adapters of rank {options.rank}"
    ways[name] = _adapted(options)
    ways[f"Minimum Bayes risk, {options.samples} samples"] = _bayes(plain, options.samples)
    return ways


def _sampling(translator):
    import tensorflow as tf

    from tf_transformer.inference.sampler import sample_many

    draw = tf.function(functools.partial(sample_many, translator), autograph=False)
    return lambda lines: draw(
        tf.constant(lines), tf.range(len(lines), dtype=tf.int64)[:, tf.newaxis]
    )


def _adapted(options):
    import numpy as np
    import tensorflow as tf

    from tf_transformer.inference.translator import Translator
    from tf_transformer.models.lora import projections
    from tf_transformer.models.row_adapters import adapt_rows

    translator = Translator.load(options.model_dir[0], beam_size=BEAM)
    random = np.random.default_rng(1)
    kernels = {
        name: layer.kernel.shape
        for name, layer in projections(translator.model).items()
        if "/layer_" in name
    }
    adapters = {
        f"adapter {number}": {
            name: (
                random.normal(0, 0.01, (inputs, options.rank)),
                random.normal(0, 0.01, (options.rank, outputs)),
            )
            for name, (inputs, outputs) in kernels.items()
        }
        for number in range(options.adapters)
    }
    adapt_rows(translator.model, adapters)
    translate = tf.function(
        lambda text, chosen: translator.translate_in_graph(text, adapters=chosen), autograph=False
    )
    return lambda lines: translate(tf.constant(lines), tf.range(len(lines)) % options.adapters + 1)


def _bayes(translator, num_samples):
    from tf_transformer.predictors.model_predictor import ModelPredictor
    from tf_transformer.reranking.reranker import Reranker
    from tf_transformer.reranking.settings import MinimumBayesRisk

    choice = MinimumBayesRisk(num_samples=num_samples)
    return Reranker(ModelPredictor.of(translator), choice).translate_batch


def measure(ways: dict[str, Way], sources: list[str], batch_size: int, rounds: int):
    """Returns the seconds that each way needs for all sentences, by round after a warm-up."""
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    for _ in tqdm.trange(1 + rounds, desc="rounds"):
        for name, translate in ways.items():
            start = time.perf_counter()
            for first in range(0, len(sources), batch_size):
                translate(sources[first : first + batch_size])
            seconds[name].append(time.perf_counter() - start)
    return {name: found[1:] for name, found in seconds.items()}


def main() -> None:
    """Runs the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--model-dir", type=pathlib.Path, nargs="+", required=True)
    parser.add_argument("--source", required=True)
    parser.add_argument("--sentences", type=int, default=128, help="of the source, at most")
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--adapters", type=int, default=4)
    parser.add_argument("--rank", type=int, default=8)
    parser.add_argument("--samples", type=int, default=16)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    import_tensorflow()
    import tensorflow as tf

    tf.config.threading.set_intra_op_parallelism_threads(options.threads)
    tf.config.threading.set_inter_op_parallelism_threads(options.threads)
    lines = itertools.islice(TextFile.parse(options.source).lines(), options.sentences)
    sources = [line for line in lines if line.strip()]
    seconds = measure(make_ways(options), sources, options.batch_size, options.rounds)
    print("| way | ms per sentence | relative |\n|---|---|---|")
    for name, rounds in seconds.items():
        ratio = statistics.median(
            own / base for own, base in zip(rounds, seconds[PLAIN], strict=True)
        )
        milliseconds = 1000 * statistics.median(rounds) / len(sources)
        print(f"| {name} | {milliseconds:.1f} | {ratio:.2f} |")


if __name__ == "__main__":
    main()
