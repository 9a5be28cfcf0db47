"""Products in 8-bit integers, with the kernels that a stock TensorFlow has on x86-64."""

import functools
from typing import Any

import numpy as np
import tensorflow as tf

from tf_transformer.decoder_model import DecoderModel
from tf_transformer.embedding import TokenEmbedding
from tf_transformer.projection import Projection

_LARGEST = 127
# The kernel takes unsigned inputs; a constant brings them back.
_OFFSET = 128
# Of a column of zeros.
_LEAST_RANGE = 1e-20


class Int8Product:
    """x W + b with x and W in 8 bits   (the scheme of Wu et al., 2016, section 6).

    Every column of W has a scale of its own, and so has every row of x, found from that row alone:
    with s = max |x| / 127 and t = max |W| / 127 of a column,

        x W  ~  s t (round(x / s) round(W / t))

    The product in the brackets is exact in 32 bits.

    The weights are constants of the graph, inside one function that all callers share: so a
    SavedModel holds them once, and the kernel keeps them packed between calls.

    Args:
        kernel: W, `(inputs, outputs)`.
        bias: b, `(outputs,)`, or None.
    """

    def __init__(self, kernel: np.ndarray, bias: np.ndarray | None = None):
        kernel = np.asarray(kernel, "float32")
        self.scale = np.maximum(np.abs(kernel).max(axis=0) / _LARGEST, _LEAST_RANGE)
        self.kernel = np.rint(kernel / self.scale).astype("int8")
        self.bias = None if bias is None else np.asarray(bias, "float32")
        self._multiply = tf.function(
            self._multiply_rows,
            input_signature=[tf.TensorSpec((None, kernel.shape[0]), tf.float32)],
            autograph=False,
        ).get_concrete_function()

    @property
    def arrays(self) -> list[np.ndarray]:
        """What defines the product."""
        return [self.kernel, self.scale, *([] if self.bias is None else [self.bias])]

    def __call__(self, inputs: Any) -> tf.Tensor:
        """`(..., inputs)` to `(..., outputs)` float32."""
        num_inputs, num_outputs = self.kernel.shape
        inputs = tf.convert_to_tensor(inputs)
        if inputs.shape.rank == 2:
            return self._multiply(inputs)
        outputs = self._multiply(tf.reshape(inputs, (-1, num_inputs)))
        outputs = tf.reshape(outputs, tf.concat([tf.shape(inputs)[:-1], [num_outputs]], axis=0))
        outputs.set_shape((*inputs.shape[:-1], num_outputs))
        return outputs

    def _multiply_rows(self, inputs):
        largest = tf.reduce_max(tf.abs(inputs), axis=1, keepdims=True)
        scaled = inputs * tf.math.divide_no_nan(float(_LARGEST), largest)
        # The cast cuts off what is behind the point: the half rounds.
        whole = tf.cast(scaled + (_OFFSET + 0.5), tf.uint8)
        # The ranges make the kernel's own scales 1.
        products, _, _ = tf.raw_ops.QuantizedMatMulWithBias(
            a=tf.bitcast(whole, tf.quint8),
            b=tf.constant(self.kernel, tf.qint8),
            bias=tf.constant(-float(_OFFSET) * self.kernel.sum(axis=0, dtype="int32"), tf.float32),
            min_a=0.0,
            max_a=255.0,
            min_b=-float(_LARGEST),
            max_b=float(_LARGEST),
            input_quant_mode="SCALED",
            Toutput=tf.qint32,
        )
        products = tf.cast(tf.bitcast(products, tf.int32), tf.float32)
        outputs = products * (self.scale / _LARGEST) * largest
        return outputs if self.bias is None else outputs + self.bias


def quantize(model: DecoderModel) -> None:
    """Makes all products with weights 8-bit ones, for good; everything else stays float32.

    The embeddings' table stays float32 for look-ups.

    Args:
        model: a float32 model.

    Raises:
        ValueError: this TensorFlow lacks the kernels.
    """
    check_kernels()
    for layer in _layers(model):
        if isinstance(layer, Projection) and layer.product is None:
            layer.replace_product(Int8Product(layer.kernel, layer.bias))
    if model.logits_projection is None:
        table = model.target_embedding
        table.set_product(Int8Product(np.transpose(table.embeddings)))


def int8_products(model: DecoderModel) -> list[Int8Product]:
    """The products of a quantized model; none of any other."""
    return [
        layer.product
        for layer in _layers(model)
        if isinstance(layer, Projection | TokenEmbedding) and isinstance(layer.product, Int8Product)
    ]


def _layers(model):
    return model._flatten_layers(include_self=False)


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
    except (tf.errors.OpError, AttributeError) as error:
        raise ValueError(
            "int8 needs TensorFlow's oneDNN kernels (x86-64, TF_ENABLE_ONEDNN_OPTS not 0), "
            "which are missing here; float32 and bfloat16 need none"
        ) from error
    if not np.allclose(found, expected, atol=0.05 * np.abs(expected).max()):
        raise ValueError(
            "TensorFlow's int8 kernels compute something else here than where this was written; "
            "use float32 or bfloat16"
        )
