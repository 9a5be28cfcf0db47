"""Decoding with norms that are folded into the weights, or computed by one kernel of oneDNN.

    python -m benchmarks.norms --model-dir DIR --sentences F [--preset ""] [--batch 1 32]
        [--beam 1 4] [--dtype float32] [--threads 1] [--rounds 9]

Only the norms of pre-norm stacks are folded, see `quantization.folded_norms`. The three take turns
with the same outputs. Prints a table in Markdown with the medians of the milliseconds, and of the
ratios to the ordinary norms.
"""

import argparse
import itertools
import statistics
import time
from collections.abc import Callable
from typing import Any
from unittest import mock

from benchmarks.where_time_goes import TARGET_LENGTH, add_search_arguments, make_search


def onednn_norm(inputs: Any, gamma: Any, beta: Any, epsilon: float) -> Any:
    """Computes the norm by an operation that has no function in TensorFlow's interface."""
    import tensorflow as tf

    tensors = [tf.convert_to_tensor(x) for x in (inputs, gamma, beta)]
    attributes = {"epsilon": tf.compat.v1.AttrValue(f=epsilon), "T": tf.compat.v1.AttrValue(type=1)}
    operation = tf.compat.v1.get_default_graph().create_op(
        "_MklLayerNorm", tensors, [tf.float32], attrs=attributes
    )
    operation.outputs[0].set_shape(inputs.shape)
    return operation.outputs[0]


def make_searches(options: argparse.Namespace) -> dict:
    """Returns functions that translate a batch, one for each kind of norm."""
    import tensorflow as tf

    from tf_transformer.layers import normalization
    from tf_transformer.quantization import folded_norms

    plain, fold = normalization.plain_layer_norm, folded_norms.fold_norms
    kinds: dict[str, tuple[Callable, Callable]] = {
        "plain": (plain, lambda model: None),
        "folded": (plain, fold),
        "oneDNN": (onednn_norm, lambda model: None),
    }
    length, searches = tf.constant(TARGET_LENGTH), {}
    for name, (norm, prepare) in kinds.items():
        with (
            mock.patch.object(normalization, "plain_layer_norm", norm),
            mock.patch.object(folded_norms, "fold_norms", prepare),
        ):
            search, ids = make_search(options)
            concrete = search.get_concrete_function(ids, length)
        searches[name] = lambda concrete=concrete, ids=ids: concrete(ids, length)
    return searches


def time_in_turn(searches: dict, rounds: int) -> dict[str, list[float]]:
    """Returns the milliseconds of each search in each round, after one that does not count."""
    times: dict[str, list[float]] = {name: [] for name in searches}
    for _ in range(rounds + 1):
        for name, search in searches.items():
            start = time.perf_counter()
            search()
            times[name].append(1000 * (time.perf_counter() - start))
    return {name: found[1:] for name, found in times.items()}


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
    print("| rows | beam | plain, ms | folded, ms | ratio | oneDNN, ms | ratio |")
    print("|---|---|---|---|---|---|---|")
    for batch, beam in itertools.product(options.batch, options.beam):
        case = argparse.Namespace(**(vars(options) | {"batch": batch, "beam": beam}))
        times = time_in_turn(make_searches(case), options.rounds)
        plain = times.pop("plain")
        cells = [f"{batch} | {beam} | {statistics.median(plain):.1f}"]
        for found in times.values():
            ratio = statistics.median(x / y for x, y in zip(found, plain, strict=True))
            cells.append(f"{statistics.median(found):.1f} | {ratio:.2f}")
        print(f"| {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
