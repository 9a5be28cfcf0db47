"""8-bit integer matrix products, with kernels that TensorFlow's builds for x86-64 contain."""

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
# Without VNNI instructions, the kernel shifts the rows by 128 and adds two products in a 16-bit
# integer, which can hold 2 * 255 * 64 but not 2 * 255 * 127.
_LARGEST_WEIGHT = 64


class Int8Product(keras.layers.Layer):
    """Computes x W + b with x and W as 8-bit integers   (as Wu et al., 2016, section 6).

    There is one scale per column of W and one per row of x. With s = max |x| / 127 of a row and
    t = max |W| / 64 of a column,

        x W  ~  s t (round(x / s) round(W / t))

    The integer product is exact on every x86-64 processor. With 127 instead of 64 levels of W it
    would overflow on processors without VNNI instructions, and it is unknown where a SavedModel
    will be served. In a graph, the kernel packs the weights at its first call and keeps them, so
    they must not change.

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
        # The kernel expects the float value of the integer 127.
        # The name "largest" is kept: exported models contain it.
        self.value_of_127 = self._constant(
            "largest", largest / _LARGEST_WEIGHT * _LARGEST, "float32"
        )
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
        weights = [tf.convert_to_tensor(weight) for weight in (self.kernel, self.value_of_127)]
        multiply = _multiply_eagerly if tf.executing_eagerly() else _multiply
        outputs = multiply(rows, *weights)
        if self.bias is not None:
            outputs = outputs + self.bias
        if inputs.shape.rank == 2:
            return outputs
        outputs = tf.reshape(outputs, tf.concat([tf.shape(inputs)[:-1], [num_outputs]], axis=0))
        outputs.set_shape((*inputs.shape[:-1], num_outputs))
        return outputs

    def columns(self, indices: tf.Tensor) -> tf.Tensor:
        """Returns some columns of W, `(inputs, columns)` float32."""
        scale = tf.gather(tf.convert_to_tensor(self.value_of_127), indices) / _LARGEST
        kernel = tf.gather(tf.convert_to_tensor(self.kernel), indices, axis=1)
        return tf.cast(kernel, tf.float32) * scale


def _multiply(rows, kernel, value_of_127, keeps_weights=True):
    """Multiplies floating-point rows by int8 weights.

    Args:
        rows: x, `(rows, inputs)` float32.
        kernel: W as integers, `(inputs, outputs)` int8.
        value_of_127: `(outputs,)` float32, the value of the integer 127 in each column of W.
        keeps_weights: whether the kernel may keep the weights of its first call.

    Returns:
        `(rows, outputs)` float32.
    """
    largest = tf.reduce_max(tf.abs(rows), axis=1, keepdims=True)
    integers = tf.cast(tf.round(rows * tf.math.divide_no_nan(float(_LARGEST), largest)), tf.int8)
    # x, W, a bias, and the minimum and maximum values of x and of W, of which the larger magnitude
    # counts. For x it is 1, since the result is multiplied by `largest` below.
    inputs = [
        tf.bitcast(integers, tf.qint8),
        tf.bitcast(kernel, tf.qint8),
        tf.zeros_like(value_of_127),
        *(tf.constant(1.0), tf.constant(1.0)),
        *(value_of_127, value_of_127),
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


# All layers share this kernel, so it must not keep the weights of the first.
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
    """Replaces all products with weights by 8-bit products, permanently.

    Everything else stays float32, including the embedding matrix for look-ups.

    Args:
        model: a float32 model.

    Raises:
        InputError: this build of TensorFlow lacks the kernels.
        ImportError: the Keras backend is not TensorFlow.
    """
    require_tensorflow("int8")
    check_kernels()
    for layer in sublayers(model):
        if isinstance(layer, Projection) and layer.product is None:
            layer.replace_product(Int8Product(layer.kernel, layer.bias))
    if model.logits_projection is None:
        embedding = model.target_embedding
        embedding.set_product(Int8Product(np.transpose(embedding.embeddings)))


def is_quantized(model: DecoderModel) -> bool:
    """Returns whether the model is quantized."""
    return any(isinstance(layer, Int8Product) for layer in sublayers(model))


@functools.cache
def check_kernels() -> None:
    """Checks the kernels with a product.

    Raises:
        InputError: the kernels are missing, or their results are wrong.
    """
    random = np.random.default_rng(1)
    inputs, kernel = (random.normal(size=size).astype("float32") for size in ((3, 64), (64, 48)))
    expected = inputs @ kernel
    try:
        found = Int8Product(kernel)(inputs).numpy()
    except (tf.errors.OpError, ValueError) as error:
        raise InputError(
            "int8 needs TensorFlow's oneDNN kernels, which this build of TensorFlow lacks and "
            "builds for x86-64 have. Use float32 or bfloat16"
        ) from error
    if not np.allclose(found, expected, atol=0.05 * np.abs(expected).max()):
        raise InputError(
            "TensorFlow's int8 kernels give wrong results on this machine. Use float32 or bfloat16"
        )
