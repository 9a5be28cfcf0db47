"""Profile of training: the share of each kernel (tf.profiler).

    python -m benchmarks.where_training_time_goes --source F --target F [--preset base]
        [--dtype float32] [--threads 2] [--steps 10]

The batches are those of `train.py`. Operations run one at a time, so that each has all threads.
"""

import argparse
import collections
import pathlib
import subprocess
import sys
import tempfile
import time

from benchmarks.kernels import kernel_table, kernel_times
from benchmarks.saved_batches import read_batches
from tf_transformer.presets import PRESETS

_PRODUCTS = ("MatMul", "Einsum")


def make_fit(options):
    """Returns a function that trains one step on each batch, and the number of batches."""
    import tensorflow as tf

    from training.malloc import keep_freed_memory
    from training.model import build_model
    from training.settings import make_config

    keep_freed_memory()
    tf.config.threading.set_intra_op_parallelism_threads(options.threads)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    tf.keras.utils.set_random_seed(1)
    with tempfile.TemporaryDirectory() as directory:
        words = [sys.executable, "-m", "benchmarks.train", "--write", directory]
        words += ["--source", options.source, "--target", options.target]
        words += ["--batches", str(options.steps), "--vocab-size", str(options.vocab_size)]
        if subprocess.run(words).returncode:
            sys.exit(2)
        batches = read_batches(pathlib.Path(directory))
    settings = {"preset": options.preset, "optimization": {"dtype": options.dtype}}
    model = build_model(make_config(settings), options.vocab_size, options.vocab_size)

    def examples():
        for source, target, labels in batches:
            yield {"source": source, "target": target}, labels

    ids = tf.TensorSpec([None, None], tf.int32)
    data = tf.data.Dataset.from_generator(
        examples, output_signature=({"source": ids, "target": ids}, ids)
    )
    return lambda: model.fit(data, verbose=0, shuffle=False), len(batches)


def main() -> None:
    """Runs the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--source", required=True)
    parser.add_argument("--target", required=True)
    parser.add_argument("--preset", choices=PRESETS, default="base")
    parser.add_argument("--dtype", choices=("float32", "mixed_bfloat16"), default="float32")
    parser.add_argument("--vocab-size", type=int, default=8000)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--steps", type=int, default=10, help="maximum number, one batch each")
    options = parser.parse_args()
    fit, num_steps = make_fit(options)
    fit()  # warm-up
    start, used = time.perf_counter(), time.process_time()
    fit()
    seconds, used = time.perf_counter() - start, time.process_time() - used
    print(
        f"{1000 * seconds / num_steps:.0f} ms per step; the threads are busy "
        f"{used / seconds / options.threads:.0%} of the time\n"
    )
    times = kernel_times(fit)
    steps = collections.Counter({kind: ms / num_steps for kind, ms in times.items()})
    print("\n".join(kernel_table(steps, 20)))
    products = sum(ms for kind, ms in steps.items() if any(name in kind for name in _PRODUCTS))
    print(f"\nMatrix products: {products / steps.total():.0%}")


if __name__ == "__main__":
    main()
