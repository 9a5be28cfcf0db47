"""Products of 8-bit integers, with kernels that TensorFlow's builds for x86-64 contain.

In a graph, the kernel packs the weights at its first call and keeps them as long as weights and
scales are the same tensors, so they must be variables that do not change.
"""

import functools

import tensorflow as tf

from tf_transformer.private_interfaces import quantized_matmul

LARGEST = 127
# Without VNNI instructions, the kernel shifts the rows by 128 and adds two products in a 16-bit
# integer, which can hold 2 * 255 * 64 but not 2 * 255 * 127.
LARGEST_WEIGHT = 64


def multiply(
    rows: tf.Tensor,
    kernel: tf.Tensor,
    value_of_127: tf.Tensor,
    bias: tf.Tensor | None = None,
    input_range: float | tf.Tensor | None = None,
    *,
    transposed: bool = False,
    keeps_weights: bool = True,
) -> tf.Tensor:
    """Multiplies floating-point rows by int8 weights.

    Args:
        rows: x, `(rows, inputs)` float32.
        kernel: W as integers, `(inputs, outputs)` int8.
        value_of_127: `(outputs,)` float32, the value of the integer 127 in each column of W.
        bias: b, `(outputs,)` float32, or None.
        input_range: the magnitude that becomes the integer 127, `()` float32; larger ones are
            clipped, and NaN becomes 0. None means the largest magnitude of each row.
        transposed: whether `kernel` is W^T, `(outputs, inputs)`.
        keeps_weights: whether the kernel may keep the weights of its first call.

    Returns:
        `(rows, outputs)` float32.
    """
    product = functools.partial(
        _multiply_integers, transposed=transposed, keeps_weights=keeps_weights
    )
    if input_range is None:
        largest = tf.reduce_max(tf.abs(rows), axis=1, keepdims=True)
        scaled = rows * tf.math.divide_no_nan(float(LARGEST), largest)
        integers = tf.bitcast(tf.cast(tf.round(scaled), tf.int8), tf.qint8)
        no_bias = tf.zeros_like(value_of_127)
        outputs = product(integers, kernel, value_of_127, no_bias, tf.constant(1.0)) * largest
        return outputs if bias is None else outputs + bias
    # round(127 / r clip(x, -r, r)), half to even, in one operation. With `narrow_range`, the
    # integers are -127 to 127, and TensorFlow does not replace the operation by oneDNN's, which
    # scales to 127.5.
    integers = tf.raw_ops.QuantizeV2(
        input=rows,
        min_range=-input_range,  # of a number, this is a constant of the graph
        max_range=input_range,
        T=tf.qint8,
        mode="SCALED",
        round_mode="HALF_TO_EVEN",
        narrow_range=True,
        ensure_minimum_range=0.0,
    ).output
    bias = tf.zeros_like(value_of_127) if bias is None else bias
    input_range = tf.convert_to_tensor(input_range, tf.float32)
    return product(integers, kernel, value_of_127, bias, input_range)


def _multiply_integers(
    integers, kernel, value_of_127, bias, input_range, *, transposed, keeps_weights
):
    """Returns `x W + b`; `input_range` is the value of the integer 127 in x."""
    # x, W, b, and the minimum and maximum values of x and of W, of which the larger magnitude
    # counts.
    inputs = [
        *(integers, tf.bitcast(kernel, tf.qint8), bias),
        *(input_range, input_range, value_of_127, value_of_127),
    ]
    qint8, float32 = (_type(dtype) for dtype in (tf.qint8, tf.float32))
    attributes = {
        "Tdevice_inputs": _types([]),
        "Thost_inputs": _types([tensor.dtype for tensor in inputs]),
        "Tdevice_outputs": _types([tf.float32]),
        "Thost_outputs": _types([]),
        **{"T1": qint8, "T2": qint8, "Tbias": float32, "U": float32, "Tout": float32},
        "transpose_b": tf.compat.v1.AttrValue(b=transposed),
        "is_weight_const": tf.compat.v1.AttrValue(b=keeps_weights),
        "fused_ops": _list(s=[b"BiasAdd", b"Dequantize"]),
    }
    products = quantized_matmul(inputs, attributes, "int8_product")
    products.set_shape((None, value_of_127.shape[0]))
    return products


_SPECS = {
    "rows": tf.TensorSpec((None, None), tf.float32),
    "kernel": tf.TensorSpec((None, None), tf.int8),
    "value_of_127": tf.TensorSpec((None,), tf.float32),
    "bias": tf.TensorSpec((None,), tf.float32),
    "input_range": tf.TensorSpec((), tf.float32),
}


def multiply_eagerly(*, transposed: bool = False, **arguments: tf.Tensor | float) -> tf.Tensor:
    """Calls `multiply` in a graph, which the kernel needs.

    Args:
        transposed: see `multiply`.
        **arguments: the other arguments of `multiply` that are not None.
    """
    return _eager_function(tuple(arguments), transposed)(arguments)


@functools.cache
def _eager_function(names, transposed):
    # All layers share these functions, so their kernels must not keep the weights of the first.
    return tf.function(
        lambda arguments: multiply(**arguments, transposed=transposed, keeps_weights=False),
        input_signature=[{name: _SPECS[name] for name in names}],
        autograph=False,
    )


def _list(**values):
    return tf.compat.v1.AttrValue(list=tf.compat.v1.AttrValue.ListValue(**values))


def _type(dtype):
    return tf.compat.v1.AttrValue(type=dtype.as_datatype_enum)


def _types(dtypes):
    return _list(type=[dtype.as_datatype_enum for dtype in dtypes])
