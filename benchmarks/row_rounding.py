"""How much the result of an operation for one row depends on the other rows and on padding.

    python -m benchmarks.row_rounding [--inputs 512] [--outputs 2048] [--rows 200]

Each operation used in translation is computed for all rows at once, and then for fewer rows at a
time. Prints the largest difference relative to the largest value, as a table in Markdown; for
attention, the difference due to wider padding. Results depend on the processor's kernels.
"""

import argparse
from collections.abc import Callable

import numpy as np

from tf_transformer.command_line.quiet import import_tensorflow

PARTS = (1, 2, 4, 8, 25, 100)
PADDING = (1, 3, 5, 12, 40, 100)


def largest_differences(operation: Callable, inputs: np.ndarray) -> list[float]:
    """Returns the largest difference for each number of rows at once in `PARTS`."""
    whole = operation(inputs).numpy()
    differences = []
    for count in PARTS:
        parts = [
            operation(inputs[start : start + count]).numpy()
            for start in range(0, len(inputs), count)
        ]
        differences.append(np.abs(np.concatenate(parts) - whole).max() / np.abs(whole).max())
    return differences


def row_operations(kernel: np.ndarray) -> dict[str, Callable]:
    """Returns the row-wise operations by name."""
    import tensorflow as tf

    from tf_transformer.quantization.int8_layers import Int8Product

    in_bfloat16 = tf.cast(kernel, tf.bfloat16)
    int8_product = Int8Product(kernel)
    operations = {
        "matrix product, float32": lambda rows: tf.matmul(rows, kernel),
        "matrix product, bfloat16": lambda rows: tf.cast(
            tf.matmul(tf.cast(rows, tf.bfloat16), in_bfloat16), tf.float32
        ),
        "matrix product, int8": int8_product,
        "softmax": tf.nn.softmax,
        "mean, as in layer norm": lambda rows: tf.reduce_mean(rows, axis=1, keepdims=True),
    }
    return {name: tf.function(operation) for name, operation in operations.items()}


def padding_differences(random: np.random.Generator) -> list[float]:
    """Returns how much attention changes for each number of masked keys in `PADDING`."""
    import tensorflow as tf

    from tf_transformer.layers.attention import scaled_dot_product_attention

    query, key, value = random.normal(size=(3, 32, 4, 20, 32)).astype("float32")

    @tf.function
    def attend(width):
        padded = [tf.pad(x, [[0, 0], [0, 0], [0, width], [0, 0]]) for x in (key, value)]
        mask = tf.range(20 + width) < 20
        outputs, _ = scaled_dot_product_attention(
            query, *padded, mask[tf.newaxis, tf.newaxis, tf.newaxis]
        )
        return outputs

    alone = attend(tf.constant(0)).numpy()
    return [
        np.abs(attend(tf.constant(width)).numpy() - alone).max() / np.abs(alone).max()
        for width in PADDING
    ]


def table(head: list, rows: list[list]) -> str:
    """Returns a table in Markdown."""
    cells = [head, ["---"] * len(head)]
    for name, *values in rows:
        cells.append([name, *(f"{value:.0e}" if value else "0" for value in values)])
    return "\n".join(f"| {' | '.join(map(str, row))} |" for row in cells)


def main() -> None:
    """Runs the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--inputs", type=int, default=512, help="width of a row")
    parser.add_argument("--outputs", type=int, default=2048, help="width of a product's row")
    parser.add_argument("--rows", type=int, default=200, help="total number of rows")
    options = parser.parse_args()
    import_tensorflow()
    random = np.random.default_rng(0)
    kernel = random.normal(size=(options.inputs, options.outputs)).astype("float32")
    inputs = random.normal(size=(options.rows, options.inputs)).astype("float32")
    rows = [
        [name, *largest_differences(operation, inputs)]
        for name, operation in row_operations(kernel).items()
    ]
    print(table(["rows at once", *PARTS], rows))
    print()
    print(table(["masked keys", *PADDING], [["attention, float32", *padding_differences(random)]]))


if __name__ == "__main__":
    main()
