"""Quantization of a model to 8-bit integers."""

import functools
import math
from collections.abc import Mapping

import keras
import numpy as np
import tensorflow as tf

from tf_transformer.backend import has_gpu, require_tensorflow
from tf_transformer.errors import InputError
from tf_transformer.layers.dense import Projection
from tf_transformer.layers.embedding import TokenEmbedding
from tf_transformer.models.base import DecoderModel
from tf_transformer.private_interfaces import sublayers
from tf_transformer.processor import has_vnni
from tf_transformer.quantization.int8_layers import Int8Embedding, Int8Product

# With fewer weights, or fewer inputs for each output that is scaled, 8-bit products are slower than
# those of float32: without VNNI up to about 128 rows, with it up to about 4. See
# `python -m benchmarks.products` with `--shape 128 384 --megabytes 1` and `--shape 128 8000
# --megabytes 4`.
FEWEST_WEIGHTS, FEWEST_INPUTS = (2**16, 1) if has_vnni() else (2**18, 256)


def quantize(
    model: DecoderModel,
    input_ranges: Mapping[keras.layers.Layer, float] | None = None,
) -> None:
    """Replaces products with weights, and embeddings, by 8-bit ones, permanently.

    Everything else stays float32, and so do matrices with fewer weights than `FEWEST_WEIGHTS` or
    fewer inputs than `FEWEST_INPUTS`, whose products are faster in it on this machine's processor.

    Args:
        model: a float32 model.
        input_ranges: for each layer of `activation_ranges.products_of`, the range of its product's
            inputs, which makes their scales constant; None means a scale per row.

    Raises:
        InputError: TensorFlow uses a GPU, or this build of TensorFlow lacks the kernels.
        ImportError: the Keras backend is not TensorFlow.
    """
    require_tensorflow("int8")
    if has_gpu():
        raise InputError(
            "int8 needs the CPU: its products have no kernels for GPUs. Hide the GPU from "
            "TensorFlow (environment variable CUDA_VISIBLE_DEVICES=-1), or use float32 or bfloat16"
        )
    check_kernels()
    ranges = input_ranges or {}

    def is_large(matrix, num_inputs):
        return math.prod(matrix.shape) >= FEWEST_WEIGHTS and num_inputs >= FEWEST_INPUTS

    for layer in sublayers(model):
        is_projection = isinstance(layer, Projection) and layer.product is None
        if is_projection and is_large(layer.kernel, layer.kernel.shape[0]):
            layer.replace_product(Int8Product(layer.kernel, layer.bias, ranges.get(layer)))
        is_embedding = isinstance(layer, TokenEmbedding) and layer.table is None
        if is_embedding and is_large(layer.embeddings, layer.embeddings.shape[1]):
            layer.replace_table(Int8Embedding(layer.embeddings, ranges.get(layer)))


def is_quantized(model: keras.Model) -> bool:
    """Returns whether the model is quantized."""
    return any(isinstance(layer, Int8Product) for layer in sublayers(model))


@functools.cache
def check_kernels() -> None:
    """Checks the kernels with products.

    Raises:
        InputError: the kernels are missing, or their results are wrong.
    """
    random = np.random.default_rng(1)
    inputs, kernel = (random.normal(size=size).astype("float32") for size in ((3, 64), (64, 48)))
    expected = inputs @ kernel
    products = [Int8Product(kernel), Int8Embedding(kernel.T, np.abs(inputs).max())]
    try:
        found = [product(inputs).numpy() for product in products]
    except (tf.errors.OpError, ValueError) as error:
        raise InputError(
            "int8 needs TensorFlow's oneDNN kernels, which this build of TensorFlow lacks and "
            "builds for x86-64 have. Use float32 or bfloat16"
        ) from error
    if not np.allclose(found, expected, atol=0.05 * np.abs(expected).max()):
        raise InputError(
            "TensorFlow's int8 kernels give wrong results on this machine. Use float32 or bfloat16"
        )
