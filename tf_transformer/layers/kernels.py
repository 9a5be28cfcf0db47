"""Faster forms of small functions for training: hand-written gradients and TensorFlow kernels.

Nothing here changes what is computed: beside each function stands its plain form, `plain_...`, in
`keras.ops` alone, and the tests compare values and gradients of the two.
"""

from typing import Any

import keras
from keras import ops


def is_tensorflow() -> bool:
    """Whether Keras computes with TensorFlow, whose kernels this module calls."""
    return keras.backend.backend() == "tensorflow"


# Layer normalization (Ba et al., 2016)


def plain_layer_norm(inputs: Any, gamma: Any, beta: Any, epsilon: float) -> Any:
    """y = gamma x' + beta,  x' = (x - mean(x)) / sqrt(variance(x) + epsilon), in float32."""
    rows = ops.cast(inputs, "float32")
    rows = rows - ops.mean(rows, axis=-1, keepdims=True)
    variance = ops.mean(ops.square(rows), axis=-1, keepdims=True)
    outputs = rows * ops.rsqrt(variance + epsilon) * gamma + beta
    return ops.cast(outputs, inputs.dtype)


def layer_norm(inputs: Any, gamma: Any, beta: Any, epsilon: float) -> Any:
    """`plain_layer_norm` with its gradient written out.

    dx = (g - mean(g) - x' mean(g x')) / sqrt(variance(x) + epsilon),  g = gamma dy

    The derived gradient goes over the array about twice as often.

    Args:
        inputs: x, `(..., width)`.
        gamma, beta: `(width,)`; computed with in float32.
        epsilon: added to the variance.
    """
    import tensorflow as tf

    width, dtype = inputs.shape[-1], inputs.dtype

    @tf.custom_gradient
    def norm(inputs, gamma, beta):
        shape = tf.shape(inputs)
        rows = tf.reshape(tf.cast(inputs, tf.float32), [-1, width])
        rows -= tf.reduce_mean(rows, axis=-1, keepdims=True)
        variance = tf.reduce_mean(tf.square(rows), axis=-1, keepdims=True)
        inverse = tf.math.rsqrt(variance + epsilon)
        rows *= inverse

        def gradient(upstream):
            upstream = tf.reshape(tf.cast(upstream, tf.float32), [-1, width])
            products = upstream * rows
            # Products with a vector: means that need no scaled copy.
            weights = gamma[:, tf.newaxis] / width
            means = tf.matmul(upstream, weights) + rows * tf.matmul(products, weights)
            d_inputs = tf.cast((upstream * gamma - means) * inverse, dtype)
            d_gamma, d_beta = (
                tf.raw_ops.BiasAddGrad(out_backprop=array) for array in (products, upstream)
            )
            return tf.reshape(d_inputs, shape), d_gamma, d_beta

        outputs = tf.nn.bias_add(rows * gamma, beta)
        return tf.cast(tf.reshape(outputs, shape), dtype), gradient

    return norm(inputs, tf.cast(gamma, tf.float32), tf.cast(beta, tf.float32))


# Dense layers


def plain_affine(inputs: Any, kernel: Any, bias: Any) -> Any:
    """x W + b: `(rows, inputs)`, `(inputs, outputs)` and `(outputs,)` to `(rows, outputs)`."""
    return ops.matmul(inputs, kernel) + bias


def affine(inputs: Any, kernel: Any, bias: Any) -> Any:
    """`plain_affine` whose gradient dx = dy W^T is computed with a copy of W^T.

    Where y is wider than x, TensorFlow's product of float32 matrices takes a quarter longer with
    the transpose of W than with a copy.
    """
    import tensorflow as tf

    @tf.custom_gradient
    def product(inputs, kernel, bias):
        def gradient(upstream):
            # By way of three axes, or TensorFlow would make it one product again; and not before
            # it is needed, or the copies of all layers would exist at once.
            with tf.control_dependencies([upstream]):
                transposed = tf.transpose(kernel[:, :, tf.newaxis], (1, 0, 2))
            transposed = tf.reshape(transposed, kernel.shape[::-1])
            d_kernel = tf.matmul(inputs, upstream, transpose_a=True)
            return (
                tf.matmul(upstream, transposed),
                d_kernel,
                tf.raw_ops.BiasAddGrad(out_backprop=upstream),
            )

        return tf.nn.bias_add(tf.matmul(inputs, kernel), bias), gradient

    # Tensors, not variables: the gradient is that of the weights as they are now.
    return product(inputs, tf.convert_to_tensor(kernel), tf.convert_to_tensor(bias))


# Dropout


def dropout_factors(inputs: Any, rate: float, seed: Any) -> Any:
    """0 or `1 / (1 - rate)` for each entry, drawn from 16 random bits each.

    TensorFlow's own takes 32 bits. The rate is rounded to a multiple of 2^-16.

    Args:
        inputs: tensor of any shape, of the dtype of the result.
        rate: probability of 0, in [0, 1).
        seed: two integers.
    """
    import tensorflow as tf

    dropped = min(round(rate * 2**16), 2**16 - 1)
    size = tf.size(inputs)
    bits = tf.random.stateless_uniform(
        [(size + 1) // 2], tf.cast(seed, tf.int32), minval=None, maxval=None, dtype=tf.int32
    )
    bits = tf.reshape(tf.bitcast(bits, tf.uint16), [-1])[:size]
    kept = tf.reshape(bits, tf.shape(inputs)) >= tf.constant(dropped, tf.uint16)
    scale = tf.constant(1.0 / (1.0 - rate), inputs.dtype)
    return tf.where(kept, scale, tf.zeros([], inputs.dtype))


def plain_scaled_relu(inputs: Any, factors: Any) -> Any:
    """max(0, x) f of each entry."""
    return ops.relu(inputs) * factors


def scaled_relu(inputs: Any, factors: Any, scale: float) -> Any:
    """`plain_scaled_relu` of factors that are 0 or `scale`, without an array of its own.

    The gradient passes where the output is above 0, so that only the output is kept for it.
    """
    import tensorflow as tf

    @tf.custom_gradient
    def product(inputs):
        outputs = tf.nn.relu(inputs) * factors

        def gradient(upstream):
            return scale * tf.raw_ops.ReluGrad(gradients=upstream, features=outputs)

        return outputs, gradient

    return product(inputs)


# Rows of a matrix, taken in another order


def plain_take_rows(rows: Any, source: Any) -> Any:
    """`rows[source]`: `(n, width)` and `(m,)` to `(m, width)`."""
    return ops.take(rows, source, axis=0)


def permute_rows(rows: Any, source: Any, target: Any) -> Any:
    """`plain_take_rows` whose gradient is taken from where each row went.

    The derived gradient would add rows one by one.

    Args:
        rows: `(n, width)`.
        source: `(m,)`, the row that each output is.
        target: `(n,)`, the output that takes the gradient of each row; outputs beside it must have
            no gradient.
    """

    @ops.custom_gradient
    def permute(rows):
        return plain_take_rows(rows, source), lambda upstream: ops.take(upstream, target, axis=0)

    return permute(rows)


def select_rows(rows: Any, source: Any, target: Any, num_padding: int = 1) -> Any:
    """`plain_take_rows` of some of the rows; the gradient of all others is 0.

    Args:
        rows: `(n, width)`.
        source: `(m,)`, the row that each output is.
        target: `(n,)`, the output that each row became; from m to `m + num_padding - 1` for rows
            that were not selected.
        num_padding: see `target`.
    """

    @ops.custom_gradient
    def select(rows):
        def gradient(upstream):
            return ops.take(ops.pad(upstream, ((0, num_padding), (0, 0))), target, axis=0)

        return plain_take_rows(rows, source), gradient

    return select(rows)
