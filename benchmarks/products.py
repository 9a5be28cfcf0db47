"""Speed of one product with weights: row-major, tiled, bfloat16 and int8, by number of rows.

    python -m benchmarks.products [--shape 512 2048] [--rows 1 4 32 128] [--megabytes 100] [--xla]

The products alternate over enough matrices of a shape to fill `--megabytes` in float32, like the
layers of a model, since the weights in decoding do not fit the cache. "transposed" reads a matrix
of the transposed shape, as the logits of a tied embedding do without a copy. With `--xla`, XLA
compiles the loop: "int8, expanded" converts the weights to float32 before the product, "int8, sums"
within a sum of the weighted inputs. Prints a table in Markdown with milliseconds per product, as
medians of interleaved rounds.
"""

import argparse
import statistics
import time

LOOPS, ROUNDS = 20, 5


def make_kinds(count: int, shape: tuple[int, int]) -> dict:
    """Returns `{name: products}`, each a list of `count` functions of the same shape."""
    import numpy as np
    import tensorflow as tf

    from tf_transformer.quantization.int8_layers import Int8Product
    from tf_transformer.quantization.tiled_matmul import TiledProduct

    random = np.random.default_rng(1)
    kernels = [random.normal(size=shape).astype("float32") for _ in range(count)]
    bias = np.ones(shape[1], "float32")

    def plain(kernel, dtype):
        kernel, own_bias = tf.constant(kernel, dtype), tf.constant(bias, dtype)
        return lambda x: tf.nn.bias_add(tf.matmul(tf.cast(x, dtype), kernel), own_bias)

    def transposed(kernel):
        matrix = tf.constant(np.ascontiguousarray(kernel.T))
        return lambda x: tf.nn.bias_add(tf.matmul(x, matrix, transpose_b=True), bias)

    def tiled(kernel, dtype):
        product = TiledProduct(kernel, bias, dtype=dtype)
        return lambda x: product(tf.cast(x, dtype))

    return {
        "float32": [plain(kernel, "float32") for kernel in kernels],
        "float32, transposed": [transposed(kernel) for kernel in kernels],
        "float32, tiles": [tiled(kernel, "float32") for kernel in kernels],
        "bfloat16": [plain(kernel, "bfloat16") for kernel in kernels],
        "bfloat16, tiles": [tiled(kernel, "bfloat16") for kernel in kernels],
        "int8": [Int8Product(kernel, bias) for kernel in kernels],
        "int8, calibrated": [Int8Product(kernel, bias, 4.0) for kernel in kernels],
    }


def make_xla_kinds(count: int, shape: tuple[int, int]) -> dict:
    """Returns `{name: products}` for XLA, as `make_kinds`; the weights are variables."""
    import numpy as np
    import tensorflow as tf

    random = np.random.default_rng(1)
    bias = tf.constant(np.ones(shape[1], "float32"))
    kinds: dict[str, list] = {"float32": [], "int8, expanded": [], "int8, sums": []}
    for _ in range(count):
        kernel = random.normal(size=shape).astype("float32")
        scales = np.abs(kernel).max(0) / 127
        weights = tf.Variable(kernel)
        quantized = tf.Variable(np.round(kernel / scales).astype("int8"))

        def plain(x, weights=weights):
            return x @ weights + bias

        def expanded(x, quantized=quantized, scales=scales):
            return (x @ tf.cast(quantized, tf.float32)) * scales + bias

        def sums(x, quantized=quantized, scales=scales):
            weighted = x[:, :, tf.newaxis] * tf.cast(quantized, tf.float32)
            return tf.reduce_sum(weighted, axis=1) * scales + bias

        for products, product in zip(kinds.values(), (plain, expanded, sums), strict=True):
            products.append(product)
    return kinds


def make_loop(products: list, num_inputs: int, xla: bool):
    """Returns a function of rows that computes every product `LOOPS` times."""
    import tensorflow as tf

    def step(index, total, rows):
        for product in products:
            outputs = product(rows + total)
            total = tf.cast(outputs[0, 0], tf.float32) * 1e-9
        return index + 1, total, rows

    def run(rows):
        return tf.while_loop(lambda i, *_: i < LOOPS, step, (0, tf.constant(0.0), rows))[1]

    signature = None if xla else [tf.TensorSpec((None, num_inputs))]  # XLA needs the number of rows
    return tf.function(run, input_signature=signature, autograph=False, jit_compile=xla or None)


def main() -> None:
    """Runs the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--shape", nargs=2, type=int, default=[512, 2048])
    parser.add_argument("--rows", nargs="+", type=int, default=[1, 4, 32, 128])
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--megabytes", type=int, default=100)
    parser.add_argument("--xla", action="store_true", help="products in loops that XLA compiles")
    options = parser.parse_args()
    import tensorflow as tf

    tf.config.threading.set_intra_op_parallelism_threads(options.threads)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    shape = tuple(options.shape)
    count = -(-options.megabytes * 2**20 // (4 * shape[0] * shape[1]))
    kinds = (make_xla_kinds if options.xla else make_kinds)(count, shape)
    loops = {name: make_loop(kind, shape[0], options.xla) for name, kind in kinds.items()}
    times = {(name, rows): [] for name in loops for rows in options.rows}
    for rows in options.rows:
        inputs = tf.random.normal((rows, shape[0]))
        for round_index in range(ROUNDS + 1):
            for name, loop in loops.items():
                start = time.perf_counter()
                loop(inputs)
                if round_index:  # the first round is a warm-up
                    times[name, rows].append((time.perf_counter() - start) / LOOPS / count)
    print("| ms | " + " | ".join(f"{rows} rows" for rows in options.rows) + " |")
    print("|---" * (len(options.rows) + 1) + "|")
    for name in loops:
        cells = [f"{1000 * statistics.median(times[name, rows]):.3f}" for rows in options.rows]
        print(f"| {name} | " + " | ".join(cells) + " |")


if __name__ == "__main__":
    main()
