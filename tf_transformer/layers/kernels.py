"""Small functions, and faster versions for training: hand-written gradients, TensorFlow kernels.

The results are the same. Next to each function is its plain version in `keras.ops`, `plain_...`,
and the tests compare the values and gradients of the two.
"""

from typing import Any

import keras
from keras import ops


def is_tensorflow() -> bool:
    """Returns whether the Keras backend is TensorFlow, whose kernels this module calls."""
    return keras.backend.backend() == "tensorflow"


# Layer normalization (Ba et al., 2016)


def plain_layer_norm(inputs: Any, gamma: Any, beta: Any, epsilon: float) -> Any:
    """Computes gamma x' + beta,  x' = (x - mean(x)) / sqrt(variance(x) + epsilon), in float32."""
    rows, gamma, beta = (ops.cast(array, "float32") for array in (inputs, gamma, beta))
    rows = rows - ops.mean(rows, axis=-1, keepdims=True)
    variance = ops.mean(ops.square(rows), axis=-1, keepdims=True)
    outputs = rows * ops.rsqrt(variance + epsilon) * gamma + beta
    return ops.cast(outputs, inputs.dtype)


def layer_norm(inputs: Any, gamma: Any, beta: Any, epsilon: float) -> Any:
    """Computes `plain_layer_norm` with a hand-written gradient.

    dx = (g - mean(g) - x' mean(g x')) / sqrt(variance(x) + epsilon),  g = gamma dy

    The gradient of automatic differentiation reads the array about twice as often.

    Args:
        inputs: x, `(..., width)`.
        gamma: `(width,)`, cast to float32.
        beta: `(width,)`, cast to float32.
        epsilon: added to the variance.

    Returns:
        Tensor of the shape and dtype of `inputs`.
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
            # The means as products with a vector, which need no scaled copy of the matrix.
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
    """Computes x W + b, `(rows, outputs)`.

    Args:
        inputs: x, `(rows, inputs)`.
        kernel: W, `(inputs, outputs)`.
        bias: b, `(outputs,)`.
    """
    return ops.matmul(inputs, kernel) + bias


def affine(inputs: Any, kernel: Any, bias: Any) -> Any:
    """Computes `plain_affine`; the gradient dx = dy W^T uses a copy of W^T.

    If y is wider than x, TensorFlow's product of float32 matrices takes a quarter longer with
    `transpose_b` than with a transposed copy.

    Args:
        inputs: x, `(rows, inputs)`.
        kernel: W, `(inputs, outputs)`.
        bias: b, `(outputs,)`.
    """
    import tensorflow as tf

    @tf.custom_gradient
    def product(inputs, kernel, bias):
        def gradient(upstream):
            # The third axis keeps TensorFlow from fusing the transpose into the product. The
            # control dependency delays the copy until it is needed; otherwise the copies of all
            # layers would exist at the same time.
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

    # Tensors, not variables: the gradient must use the weights of the forward pass.
    return product(inputs, tf.convert_to_tensor(kernel), tf.convert_to_tensor(bias))


def plain_times_transposed(inputs: Any, matrix: Any) -> Any:
    """Computes x E^T for x `(..., width)` and E `(outputs, width)`."""
    return ops.matmul(inputs, ops.transpose(matrix))


def times_transposed(inputs: Any, matrix: Any) -> Any:
    """Computes `plain_times_transposed` without a transposed copy of the matrix.

    Only TensorFlow's graph optimizer would remove the copy, which a server does not run.
    """
    if not is_tensorflow():
        return plain_times_transposed(inputs, matrix)
    import tensorflow as tf

    rows = tf.reshape(inputs, (-1, inputs.shape[-1]))
    products = tf.matmul(rows, matrix, transpose_b=True)
    return tf.reshape(products, (*ops.shape(inputs)[:-1], matrix.shape[0]))


# Dropout


def dropout_factors(inputs: Any, rate: float, seed: Any) -> Any:
    """Draws 0 or `1 / (1 - rate)` for each entry, from 16 random bits each.

    TensorFlow's dropout uses 32 bits. The rate is rounded to a multiple of 2^-16.

    Args:
        inputs: tensor that gives the shape and dtype of the result.
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
    """Computes max(0, x) f for each entry x of `inputs` and f of `factors`."""
    return ops.relu(inputs) * factors


def scaled_relu(inputs: Any, factors: Any, scale: float) -> Any:
    """Computes `plain_scaled_relu`, and keeps only its output for the gradient.

    The gradient is `scale` where the output is above 0.

    Args:
        inputs: x, tensor of any shape.
        factors: f, tensor of the same shape whose entries are 0 or `scale`.
        scale: the factor of entries that are not dropped.
    """
    import tensorflow as tf

    @tf.custom_gradient
    def product(inputs):
        outputs = tf.nn.relu(inputs) * factors

        def gradient(upstream):
            return scale * tf.raw_ops.ReluGrad(gradients=upstream, features=outputs)

        return outputs, gradient

    return product(inputs)


# Looking up, permuting and selecting rows of a matrix


def look_up(table: Any, indices: Any) -> Any:
    """Returns rows of a table: `(n, width)` and `(...)` indices to `(..., width)`.

    `ops.take` would count negative indices from the end, with three more operations.
    """
    if not is_tensorflow():
        return ops.take(table, indices, axis=0)
    import tensorflow as tf

    return tf.gather(ops.convert_to_tensor(table), indices)


def plain_take_rows(rows: Any, indices: Any) -> Any:
    """Returns `rows[indices]`: `(n, width)` and `(m,)` to `(m, width)`."""
    return ops.take(rows, indices, axis=0)


def permute_rows(rows: Any, indices: Any, inverse: Any) -> Any:
    """Computes `plain_take_rows`; the gradient is a look-up, too.

    The gradient of automatic differentiation would scatter and add the rows.

    Args:
        rows: `(n, width)`.
        indices: `(m,)`, the index of the row to copy to each output.
        inverse: `(n,)`, the index of the output from which each row takes its gradient. Outputs
            whose index is not in `inverse` must have a gradient of 0.

    Returns:
        `(m, width)`.
    """

    @ops.custom_gradient
    def permute(rows):
        return plain_take_rows(rows, indices), lambda upstream: ops.take(upstream, inverse, axis=0)

    return permute(rows)


def select_rows(rows: Any, indices: Any, inverse: Any, num_padding: int = 1) -> Any:
    """Computes `plain_take_rows` for a subset of the rows; the gradient of other rows is 0.

    Args:
        rows: `(n, width)`.
        indices: `(m,)`, the index of the row to copy to each output.
        inverse: `(n,)`, the index of the output to which each row was copied, or an index from m
            to `m + num_padding - 1` for rows that were not selected.
        num_padding: number of indices for rows that were not selected.

    Returns:
        `(m, width)`.
    """

    @ops.custom_gradient
    def select(rows):
        def gradient(upstream):
            return ops.take(ops.pad(upstream, ((0, num_padding), (0, 0))), inverse, axis=0)

        return plain_take_rows(rows, indices), gradient

    return select(rows)


def plain_take_columns(arrays: Any, indices: Any) -> Any:
    """Returns `arrays[r, :, b, indices[r, b]]` for all rows r and hypotheses b."""
    shape = ops.shape(arrays)
    if len(indices.shape) == 2:
        indices = indices[:, None]
    indices = ops.broadcast_to(indices[:, None], (*shape[:3], ops.shape(indices)[-1]))
    return ops.take_along_axis(arrays, indices, axis=3)


def take_columns(arrays: Any, indices: Any) -> Any:
    """Computes `plain_take_columns` without copies of the indices.

    Args:
        arrays: `(rows, heads, beam, n)`.
        indices: `(rows or 1, m)`, the columns of each row, or of all; or of each hypothesis,
            `(rows, beam, m)`.

    Returns:
        `(rows, heads, beam, m)`.
    """
    if not is_tensorflow() or len(indices.shape) == 3:
        return plain_take_columns(arrays, indices)
    import tensorflow as tf

    if indices.shape[0] == 1:
        return tf.gather(arrays, indices[0], axis=3)
    return tf.gather(arrays, indices, axis=3, batch_dims=1)


# Small products of batches


def plain_small_products(left: Any, right: Any, transpose_right: bool = False) -> Any:
    """Computes the product of every pair of matrices, as `small_products` does."""
    # With `ops.matmul`, TensorFlow would copy the transposed matrices in memory.
    return ops.einsum(
        "...qi,...ki->...qk" if transpose_right else "...qi,...ik->...qk", left, right
    )


def small_products(left: Any, right: Any, transpose_right: bool = False) -> Any:
    """Computes `plain_small_products` without oneDNN.

    TensorFlow replaces its product of batches of matrices by oneDNN's, but not this version of the
    operation. For the matrices of a decoding step, oneDNN's preparation takes longer than the
    product.

    Args:
        left: `(batch, heads, rows, inner)`.
        right: `(batch, heads, inner, columns)`, or `(batch, heads, columns, inner)` if
            `transpose_right`.
        transpose_right: True transposes the right matrices.

    Returns:
        `(batch, heads, rows, columns)`.
    """
    if not is_tensorflow() or keras.backend.standardize_dtype(left.dtype) != "float32":
        return plain_small_products(left, right, transpose_right)
    import tensorflow as tf

    return tf.raw_ops.BatchMatMulV3(x=left, y=right, Tout=tf.float32, adj_y=transpose_right)


def small_softmax(scores: Any) -> Any:
    """Computes softmax(scores) as exp(log softmax(scores)), which avoids oneDNN in the same way."""
    return ops.exp(ops.log_softmax(scores, axis=-1))


# Linear recurrence


def plain_linear_recurrence(factors: Any, terms: Any) -> Any:
    """Computes c_t = a_t * c_(t-1) + b_t with c_0 = 0, for all t.

    Args:
        factors: a, `(length, ...)`.
        terms: b, `(length, ...)`.

    Returns:
        c, `(length, ...)`.
    """

    def advance(state, inputs):
        factor, term = inputs
        state = factor * state + term
        return state, state

    return ops.scan(advance, ops.zeros_like(terms[0]), (factors, terms))[1]


def linear_recurrence(factors: Any, terms: Any) -> Any:
    """Computes `plain_linear_recurrence` with a hand-written gradient, also for unknown lengths.

    The gradient is a recurrence from the end, and keeps nothing but c for it:
    db_t = dc_t + a_(t+1) * db_(t+1),   da_t = db_t * c_(t-1)

    Args:
        factors: a, `(length, ...)`.
        terms: b, `(length, ...)`.

    Returns:
        c, `(length, ...)`.
    """
    import tensorflow as tf

    def scan(factors, terms, reverse):
        def advance(state, inputs):
            return inputs[0] * state + inputs[1]

        start = tf.zeros(tf.shape(terms)[1:], terms.dtype)
        return tf.scan(advance, (factors, terms), start, reverse=reverse)

    @tf.custom_gradient
    def recur(factors, terms):
        states = scan(factors, terms, reverse=False)

        def gradient(upstream):
            d_terms = scan(tf.roll(factors, -1, axis=0), upstream, reverse=True)
            former = tf.concat([tf.zeros_like(states[:1]), states[:-1]], axis=0)
            return d_terms * former, d_terms

        return states, gradient

    return recur(factors, terms)
