"""What norms folded into the weights could gain at most: decoding with norms that are one scale.

    python -m benchmarks.norms --model-dir DIR --sentences F [--preset ""] [--batch 1 32]
        [--beam 1 4] [--dtype float32] [--threads 1] [--rounds 9]

gamma and beta of a norm, and the subtraction of the mean, can become part of the weights around it
where only a product reads its output; then the norm of a row is one factor. Where a residual
connection reads it, too, as in post-norm layers, they cannot. Here the factor alone is computed,
with wrong outputs of the same lengths, in turn with the ordinary norm. Prints a table in Markdown
with the medians of the milliseconds, and of the ratios.
"""

import argparse
import itertools
import statistics
import time
from typing import Any
from unittest import mock

from benchmarks.where_time_goes import TARGET_LENGTH, add_search_arguments, make_search


def scale_only(inputs: Any, gamma: Any, beta: Any, epsilon: float) -> Any:
    """Computes x / sqrt(mean(x^2) + epsilon), the whole of a norm that is folded."""
    from keras import ops

    rows = ops.cast(inputs, "float32")
    square = ops.mean(ops.square(rows), axis=-1, keepdims=True)
    return ops.cast(rows * ops.rsqrt(square + epsilon), inputs.dtype)


def make_searches(options: argparse.Namespace) -> dict:
    """Returns functions that translate a batch, with the ordinary norm and with the factor."""
    import tensorflow as tf

    from tf_transformer.layers import normalization

    length, searches = tf.constant(TARGET_LENGTH), {}
    for name in ("norm", "scale"):
        search, ids = make_search(options)
        norm = normalization.plain_layer_norm if name == "norm" else scale_only
        with mock.patch.object(normalization, "plain_layer_norm", norm):
            concrete = search.get_concrete_function(ids, length)
        searches[name] = lambda concrete=concrete, ids=ids: concrete(ids, length)
    return searches


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    add_search_arguments(parser)
    parser.add_argument("--batch", type=int, nargs="+", default=[1, 32])
    parser.add_argument("--beam", type=int, nargs="+", default=[1, 4])
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=9)
    options = parser.parse_args()
    import tensorflow as tf

    tf.config.threading.set_intra_op_parallelism_threads(options.threads)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    print("| rows | beam | norm, ms | one scale, ms | ratio |\n|---|---|---|---|---|")
    for batch, beam in itertools.product(options.batch, options.beam):
        case = argparse.Namespace(**(vars(options) | {"batch": batch, "beam": beam}))
        searches = make_searches(case)
        times: dict[str, list[float]] = {name: [] for name in searches}
        for _ in range(options.rounds + 1):
            for name, search in searches.items():
                start = time.perf_counter()
                search()
                times[name].append(1000 * (time.perf_counter() - start))
        norm, scale = (times[name][1:] for name in ("norm", "scale"))
        ratio = statistics.median(s / n for n, s in zip(norm, scale, strict=True))
        cells = f"{statistics.median(norm):.1f} | {statistics.median(scale):.1f} | {ratio:.2f}"
        print(f"| {batch} | {beam} | {cells} |", flush=True)


if __name__ == "__main__":
    main()
