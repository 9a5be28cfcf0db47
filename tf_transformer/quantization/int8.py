"""Products in 8-bit integers, with the kernels that a stock TensorFlow has on x86-64."""

import functools

import keras
import numpy as np
import tensorflow as tf

from tf_transformer.backend import require_tensorflow
from tf_transformer.errors import InputError
from tf_transformer.layers.dense import Projection
from tf_transformer.models.base import DecoderModel
from tf_transformer.private_interfaces import quantized_matmul, sublayers

_LARGEST = 127
# On processors without VNNI instructions the kernel shifts the rows by 128 and adds two products in
# 16 bits, which hold 2 * 255 * 64 but not 2 * 255 * 127.
_LARGEST_WEIGHT = 64


class Int8Product(keras.layers.Layer):
    """x W + b with x and W in 8 bits   (the scheme of Wu et al., 2016, section 6).

    Every column of W has a scale of its own, and so has every row of x, found from that row alone:
    with s = max |x| / 127 and t = max |W| / 64 of a column,

        x W  ~  s t (round(x / s) round(W / t))

    The product in the brackets is exact on every x86-64 processor. With 127 steps of W it is so
    only where there are VNNI instructions: elsewhere sums are cut off, and a SavedModel cannot know
    where it will be served. In a graph the kernel packs the weights at its
    first call and keeps them: they must not change.

    Args:
        kernel: W, `(inputs, outputs)`.
        bias: b, `(outputs,)`, or None.

    Call arguments:
        inputs: `(..., inputs)`.

    Returns:
        `(..., outputs)` float32.
    """

    def __init__(self, kernel: np.ndarray, bias: np.ndarray | None = None):
        super().__init__(dtype="float32")
        kernel = np.asarray(kernel, "float32")
        largest = np.abs(kernel).max(axis=0)
        scale = np.where(largest > 0, largest, 1) / _LARGEST_WEIGHT
        self.kernel = self._constant("kernel", np.rint(kernel / scale), "int8")
        # What 127 stands for: the kernel divides by that.
        self.largest = self._constant("largest", largest / _LARGEST_WEIGHT * _LARGEST, "float32")
        self.bias = None if bias is None else self._constant("bias", bias, "float32")
        self.built = True

    def _constant(self, name, values, dtype):
        weight = self.add_weight(
            shape=values.shape, name=name, dtype=dtype, initializer="zeros", trainable=False
        )
        weight.assign(values)
        return weight

    def call(self, inputs):
        num_inputs, num_outputs = self.kernel.shape
        rows = inputs if inputs.shape.rank == 2 else tf.reshape(inputs, (-1, num_inputs))
        weights = [tf.convert_to_tensor(weight) for weight in (self.kernel, self.largest)]
        multiply = _multiply_eagerly if tf.executing_eagerly() else _multiply
        outputs = multiply(rows, *weights)
        if self.bias is not None:
            outputs = outputs + self.bias
        if inputs.shape.rank == 2:
            return outputs
        outputs = tf.reshape(outputs, tf.concat([tf.shape(inputs)[:-1], [num_outputs]], axis=0))
        outputs.set_shape((*inputs.shape[:-1], num_outputs))
        return outputs


def _multiply(rows, kernel, largest_of_column, keeps_weights=True):
    """`(rows, inputs)` float32, int8 weights and the largest float of each column to the product.

    Args:
        keeps_weights: whether the kernel may keep the weights of its first call.
    """
    largest = tf.reduce_max(tf.abs(rows), axis=1, keepdims=True)
    whole = tf.cast(tf.round(rows * tf.math.divide_no_nan(float(_LARGEST), largest)), tf.int8)
    # Whole numbers, a bias, and what the largest whole numbers stand for: 1 for the rows.
    inputs = [
        tf.bitcast(whole, tf.qint8),
        tf.bitcast(kernel, tf.qint8),
        tf.zeros_like(largest_of_column),
        *(tf.constant(1.0), tf.constant(1.0)),
        *(largest_of_column, largest_of_column),
    ]
    qint8, float32 = (_type(dtype) for dtype in (tf.qint8, tf.float32))
    attributes = {
        "Tdevice_inputs": _types([]),
        "Thost_inputs": _types([tensor.dtype for tensor in inputs]),
        "Tdevice_outputs": _types([tf.float32]),
        "Thost_outputs": _types([]),
        **{"T1": qint8, "T2": qint8, "Tbias": float32, "U": float32, "Tout": float32},
        "is_weight_const": tf.compat.v1.AttrValue(b=keeps_weights),
        "fused_ops": _list(s=[b"BiasAdd", b"Dequantize"]),
    }
    products = quantized_matmul(inputs, attributes, "int8_product")
    products.set_shape((None, kernel.shape[1]))
    return products * largest


# One kernel for all layers: it must not keep the weights of the first.
_multiply_eagerly = tf.function(
    functools.partial(_multiply, keeps_weights=False),
    input_signature=[
        tf.TensorSpec((None, None), tf.float32),
        tf.TensorSpec((None, None), tf.int8),
        tf.TensorSpec((None,), tf.float32),
    ],
    autograph=False,
)


def _list(**values):
    return tf.compat.v1.AttrValue(list=tf.compat.v1.AttrValue.ListValue(**values))


def _type(dtype):
    return tf.compat.v1.AttrValue(type=dtype.as_datatype_enum)


def _types(dtypes):
    return _list(type=[dtype.as_datatype_enum for dtype in dtypes])


def quantize(model: DecoderModel) -> None:
    """Replaces all products with weights by 8-bit ones, for good; all else stays float32.

    The embeddings' table stays float32 for look-ups.

    Args:
        model: a float32 model.

    Raises:
        ValueError: this TensorFlow lacks the kernels.
        ImportError: Keras computes with another library than TensorFlow.
    """
    require_tensorflow("int8")
    check_kernels()
    for layer in sublayers(model):
        if isinstance(layer, Projection) and layer.product is None:
            layer.replace_product(Int8Product(layer.kernel, layer.bias))
    if model.logits_projection is None:
        table = model.target_embedding
        table.set_product(Int8Product(np.transpose(table.embeddings)))


def is_quantized(model: DecoderModel) -> bool:
    """Whether the model is quantized."""
    return any(isinstance(layer, Int8Product) for layer in sublayers(model))


@functools.cache
def check_kernels() -> None:
    """Tries a product.

    Raises:
        ValueError: the kernels are missing or wrong.
    """
    random = np.random.default_rng(1)
    inputs, kernel = (random.normal(size=size).astype("float32") for size in ((3, 64), (64, 48)))
    expected = inputs @ kernel
    try:
        found = Int8Product(kernel)(inputs).numpy()
    except (tf.errors.OpError, ValueError) as error:
        raise InputError(
            "int8 needs TensorFlow's oneDNN kernels, which builds for x86-64 have and "
            "this one lacks; float32 and bfloat16 need none"
        ) from error
    if not np.allclose(found, expected, atol=0.05 * np.abs(expected).max()):
        raise InputError(
            "TensorFlow's int8 kernels compute something else here than where this was written; "
            "use float32 or bfloat16"
        )
