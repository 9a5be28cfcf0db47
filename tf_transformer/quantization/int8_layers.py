"""Layers with weights of 8-bit integers: a matrix product, and an embedding matrix."""

import keras
import numpy as np
import tensorflow as tf

from tf_transformer.quantization.int8_kernels import (
    LARGEST,
    LARGEST_WEIGHT,
    multiply,
    multiply_eagerly,
)


class Int8Product(keras.layers.Layer):
    """Computes x W + b with x and W as 8-bit integers   (as Wu et al., 2016, section 6).

    There is one scale per column of W, t = max |W| / 64 of the column. The scale of x is a
    constant, s = r / 127 with the range r of a calibration, or one per row of x, with
    r = max |x| of the row:

        x W  ~  s t (round(clip(x, -r, r) / s) round(W / t))

    In both cases the result of a row depends on this row alone. A constant takes two operations,
    quantization and a product that scales and adds b; a scale per row takes nine.

    The integer product is exact on every x86-64 processor. With 127 instead of 64 levels of W it
    would overflow on processors without VNNI instructions, and it is unknown where a SavedModel
    will be served.

    Args:
        kernel: W, `(inputs, outputs)`; W^T in the class `Int8Embedding`.
        bias: b, `(outputs,)`, or None.
        input_range: r of all rows, or None for a scale per row.

    Call arguments:
        inputs: `(..., inputs)`. With an `input_range`, NaN counts as 0.

    Returns:
        `(..., outputs)` float32.
    """

    transposed = False

    def __init__(
        self,
        kernel: np.ndarray,
        bias: np.ndarray | None = None,
        input_range: float | None = None,
    ):
        super().__init__(dtype="float32")
        kernel = np.asarray(kernel, "float32")
        largest = np.abs(kernel).max(axis=1 if self.transposed else 0)
        scale = np.where(largest > 0, largest, 1) / LARGEST_WEIGHT
        integers = np.rint(kernel / (scale[:, np.newaxis] if self.transposed else scale))
        self.kernel = self._constant("kernel", integers, "int8")
        # The kernel expects the float value of the integer 127.
        # The name "largest" is kept: exported models contain it.
        self.value_of_127 = self._constant("largest", largest / LARGEST_WEIGHT * LARGEST, "float32")
        self.bias = None if bias is None else self._constant("bias", bias, "float32")
        self.input_range = input_range
        self.built = True

    def _constant(self, name, values, dtype):
        weight = self.add_weight(
            shape=values.shape, name=name, dtype=dtype, initializer="zeros", trainable=False
        )
        weight.assign(values)
        return weight

    def call(self, inputs):
        num_inputs, num_outputs = self.kernel.shape[:: -1 if self.transposed else 1]
        rows = inputs if inputs.shape.rank == 2 else tf.reshape(inputs, (-1, num_inputs))
        outputs = self._multiply(rows)
        if inputs.shape.rank == 2:
            return outputs
        outputs = tf.reshape(outputs, tf.concat([tf.shape(inputs)[:-1], [num_outputs]], axis=0))
        outputs.set_shape((*inputs.shape[:-1], num_outputs))
        return outputs

    def _multiply(self, rows):
        arguments = {"rows": rows}
        for name in ("kernel", "value_of_127", "bias"):
            if (weight := getattr(self, name)) is not None:
                arguments[name] = tf.convert_to_tensor(weight)
        if self.input_range is not None:
            arguments["input_range"] = self.input_range
        product = multiply_eagerly if tf.executing_eagerly() else multiply
        return product(**arguments, transposed=self.transposed)

    def columns(self, indices: tf.Tensor) -> tf.Tensor:
        """Returns the columns of W at `indices`, `(inputs, columns)` float32."""
        kernel, value_of_127 = map(tf.convert_to_tensor, (self.kernel, self.value_of_127))
        integers = tf.gather(kernel, indices, axis=1)
        return tf.cast(integers, tf.float32) * (tf.gather(value_of_127, indices) / LARGEST)


class Int8Embedding(Int8Product):
    """An embedding matrix E of 8-bit integers, for look-ups and for logits x E^T.

    Both use the same integers, which take a quarter of the memory of float32. See `Int8Product`,
    whose W is E^T here: there is one scale per row of E, that is per token.

    Args:
        matrix: E, `(vocab_size, d_model)`.
        input_range: see `Int8Product`.

    Call arguments:
        inputs: `(..., d_model)`.

    Returns:
        `(..., vocab_size)` float32.
    """

    transposed = True

    def __init__(self, matrix: np.ndarray, input_range: float | None = None):
        super().__init__(matrix, None, input_range)

    def look_up(self, ids: tf.Tensor, factor: float = 1.0) -> tf.Tensor:
        """Returns rows of E, multiplied by a factor: ids `(...)` to `(..., d_model)` float32."""
        kernel, value_of_127 = map(tf.convert_to_tensor, (self.kernel, self.value_of_127))
        scales = tf.gather(value_of_127, ids) * (factor / LARGEST)
        return tf.cast(tf.gather(kernel, ids), tf.float32) * scales[..., tf.newaxis]

    def columns(self, indices: tf.Tensor) -> tf.Tensor:
        """Returns the columns of E^T at `indices`, `(d_model, columns)` float32."""
        return tf.transpose(self.look_up(indices))
