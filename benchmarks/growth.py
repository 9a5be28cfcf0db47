"""How the cost of a decoding step grows with the number of previous tokens and the beam size.

    python -m benchmarks.growth --model-dir DIR --sentences F [--preset base] [--batch 8]
        [--lengths 10 20 40 80 160] [--beams 1 2 4 8] [--dtype float32] [--rounds 3]

The model is widened as in `decode.py`. 15 pieces of every sentence are translated to exactly the
given numbers of tokens, on one thread. Prints milliseconds per step, from medians, for the steps
between one length and the next; the first column includes the encoder.
"""

import argparse
import statistics
import time

import tqdm

from benchmarks.where_time_goes import add_search_arguments, make_search


def milliseconds(options: argparse.Namespace) -> dict[int, float]:
    """Returns the median time of a search for each length of its outputs."""
    import tensorflow as tf

    search, ids = make_search(options)
    times = {}
    for length in tqdm.tqdm(options.lengths, f"beam {options.beam}", leave=False, disable=None):
        rounds = []
        for _ in range(options.rounds + 1):  # the first round is a warm-up
            start = time.perf_counter()
            search(ids, tf.constant(length))
            rounds.append(time.perf_counter() - start)
        times[length] = 1000 * statistics.median(rounds[1:])
    return times


def main() -> None:
    """Runs the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    add_search_arguments(parser)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--lengths", nargs="+", type=int, default=[10, 20, 40, 80, 160])
    parser.add_argument("--beams", nargs="+", type=int, default=[1, 2, 4, 8])
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    import tensorflow as tf

    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    spans = list(zip([0, *options.lengths], options.lengths, strict=False))
    print("| ms per step | " + " | ".join(f"{first} to {last}" for first, last in spans) + " |")
    print("|---" * (len(spans) + 1) + "|")
    for beam in options.beams:
        options.beam = beam
        times = milliseconds(options)
        cells = [(times[last] - times.get(first, 0)) / (last - first) for first, last in spans]
        row = " | ".join(f"{cell:.1f}" for cell in cells)
        print(f"| beam {options.beam} | {row} |", flush=True)


if __name__ == "__main__":
    main()
