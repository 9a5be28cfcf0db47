"""Time of choosing the next tokens, in blocks and by TensorFlow's kernels.

    python -m benchmarks.choices [--vocab-sizes 1200 8000 32000] [--rows 1 32 128] [--rounds 9]

Each choice runs in a loop in one graph, on one thread and without TensorFlow's graph optimizer, as
in the steps of a search on a server; the ways take turns. Prints, in Markdown, the medians in
microseconds, without those of an empty loop.
"""

import argparse
import statistics
import time
from collections.abc import Callable

from tf_transformer.command_line.quiet import import_tensorflow

LOOPS = 50


def make_ways() -> dict[str, Callable]:
    """Returns the ways to choose from `(rows, vocab)` logits, by name; the first does nothing."""
    import tensorflow as tf

    from tf_transformer.decoding.logits_processing import best_token, forbid, top_k
    from tf_transformer.text.special_ids import SUPPRESSED_IDS

    return {
        "nothing": lambda logits: logits[0, 0],
        "argmax": lambda logits: tf.argmax(logits, axis=1),
        "best_token": best_token,
        "tf.math.top_k, k = 4": lambda logits: tf.math.top_k(logits, 4),
        "top_k, k = 4": lambda logits: top_k(logits[:, tf.newaxis], 4),
        "of a copy without suppressed tokens": lambda logits: top_k(
            forbid(logits, SUPPRESSED_IDS)[:, tf.newaxis], 4
        ),
        "without suppressed tokens": lambda logits: top_k(logits[:, tf.newaxis], 4, SUPPRESSED_IDS),
    }


def in_loop(way: Callable, rows: int, vocab_size: int) -> Callable:
    """Returns a function of logits that runs a way `LOOPS` times, one after the other."""
    import tensorflow as tf

    @tf.function(input_signature=[tf.TensorSpec([rows, vocab_size], tf.float32)], autograph=False)
    def run(logits):
        def step(index, logits):
            with tf.control_dependencies(tf.nest.flatten(way(logits))):
                return index + 1, tf.identity(logits)

        return tf.while_loop(lambda index, _: index < LOOPS, step, (0, logits))[0]

    return run


def measure(rows: int, vocab_size: int, rounds: int) -> dict[str, float]:
    """Returns the microseconds of each way but the first."""
    import numpy as np
    import tensorflow as tf

    logits = np.random.default_rng(1).normal(size=(rows, vocab_size)).astype("float32")
    logits = tf.constant(logits)
    runs = {name: in_loop(way, rows, vocab_size) for name, way in make_ways().items()}
    times: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(rounds + 1):
        for name, run in runs.items():
            start = time.perf_counter()
            run(logits)
            times[name].append((time.perf_counter() - start) / LOOPS * 1e6)
    # The first round traces.
    medians = {name: statistics.median(found[1:]) for name, found in times.items()}
    empty = medians.pop("nothing")
    return {name: value - empty for name, value in medians.items()}


def main() -> None:
    """Runs the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--vocab-sizes", nargs="+", type=int, default=[1200, 8000, 32000])
    parser.add_argument("--rows", nargs="+", type=int, default=[1, 32, 128])
    parser.add_argument("--rounds", type=int, default=9)
    options = parser.parse_args()
    import_tensorflow()
    import tensorflow as tf

    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": True})
    names = list(make_ways())[1:]
    print("| vocabulary | rows |", " | ".join(names), "|")
    print("|---|---|" + "---|" * len(names))
    for vocab_size in options.vocab_sizes:
        for rows in options.rows:
            found = measure(rows, vocab_size, options.rounds)
            print(f"| {vocab_size:,} | {rows} |", *(f"{found[name]:.0f} |" for name in names))


if __name__ == "__main__":
    main()
