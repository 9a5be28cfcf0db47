"""The dense layers of attention and feed-forward networks."""

import math
from typing import Any, Protocol

import keras
from keras import ops

from tf_transformer.backend import has_gpu
from tf_transformer.layers.kernels import affine, is_tensorflow
from tf_transformer.private_interfaces import remove_weights, tracker_unlocked


class Product(Protocol):
    """What can replace the product of a `Projection`: `(..., inputs)` to `(..., outputs)`.

    Attributes:
        bias: b, `(outputs,)`, or None.
    """

    bias: Any

    def __call__(self, inputs: Any) -> Any:
        """Returns x W + b."""

    def columns(self, indices: Any) -> Any:
        """Returns the columns of W at `indices`, `(inputs, columns)`."""


@keras.saving.register_keras_serializable(package="tf_transformer")
class Projection(keras.layers.Dense):
    """Dense layer x W + b whose product can be replaced, for example by an 8-bit one.

    Takes the arguments of `keras.layers.Dense`. With LoRA (see `models/lora.py`) it computes
    x W + (alpha / rank) (x A) B + b, without the sum of W and A B: in half precision, W would lose
    most of it, and W needs no gradient.

    Attributes:
        product: what computes the layer instead of its weights (see `replace_product`), or None.
        update: layer whose outputs are added while it is active (see `add_update`), or None.
    """

    product: Product | None = None
    update: Any = None

    def call(self, inputs, training=None):
        outputs = self._outputs(inputs, training)
        if self.update is None or not self.update.is_active:
            return outputs
        return outputs + self.update(inputs)

    def _outputs(self, inputs, training):
        if self.product is not None:
            return self.product(inputs)
        return self.own_product(inputs, training)

    def own_product(self, inputs: Any, training: bool | None = None) -> Any:
        """Computes the layer from its weights, as if `product` were None."""
        if len(inputs.shape) > 2:
            # As a single product of two matrices, TensorFlow adds the bias in the same kernel.
            rows = ops.reshape(inputs, (-1, inputs.shape[-1]))
            outputs = self.own_product(rows, training)
            return ops.reshape(outputs, (*ops.shape(inputs)[:-1], self.units))
        if self.lora_enabled and self.activation is keras.activations.linear:
            scale = ops.cast(self.lora_alpha / self.lora_rank, self.compute_dtype)
            update = ops.matmul(inputs, self.lora_kernel_a) * scale
            outputs = self._product(inputs, self._kernel, training)
            return outputs + ops.matmul(update, self.lora_kernel_b)
        if self.activation is keras.activations.linear:
            return self._product(inputs, self.kernel, training)
        return super().call(inputs, training=training)

    def _product(self, inputs, kernel, training):
        if training and self._is_slow_backwards():
            return affine(inputs, kernel, self.bias)
        outputs = ops.matmul(inputs, kernel)
        return outputs if self.bias is None else ops.add(outputs, self.bias)

    def _is_slow_backwards(self):
        return (
            is_tensorflow()
            and not has_gpu()  # whose products need no copy of the transpose
            and self.compute_dtype == "float32"
            and self.use_bias
            and self.activation is keras.activations.linear
            and self.units > self.kernel.shape[0]
        )

    def add_update(self, update: Any) -> None:
        """Adds a layer, whose outputs are added to this one's while its `is_active` is true."""
        with tracker_unlocked(self):
            self.update = update

    def replace_product(self, product: Product) -> None:
        """Replaces the layer's computation by that of `product`, and removes its weights."""
        remove_weights(self, ["_kernel", "bias"])
        with tracker_unlocked(self):
            self.product = product


def projection(
    num_inputs: int,
    num_outputs: int,
    *,
    num_parts: int = 1,
    gain: float = 1.0,
    use_bias: bool = True,
    dtype: Any = None,
    name: str | None = None,
) -> Projection:
    """Builds `num_parts` dense layers of the same input as one layer with concatenated outputs.

    The weights of each part are initialized separately, Xavier-uniform:
    W ~ U(-a, a) with a = gain sqrt(6 / (inputs + outputs))   (Glorot and Bengio, 2010). The biases
    start at 0.

    Args:
        num_inputs: width of the input.
        num_outputs: width of each part's output.
        num_parts: number of parts.
        gain: factor of the initial weights.
        use_bias: whether the layer has biases.
        dtype: dtype or dtype policy of the layer.
        name: name of the layer.

    Returns:
        A built layer from `(..., num_inputs)` to `(..., num_parts * num_outputs)`.
    """
    limit = gain * math.sqrt(6.0 / (num_inputs + num_outputs))
    layer = Projection(
        num_parts * num_outputs,
        use_bias=use_bias,
        kernel_initializer=keras.initializers.RandomUniform(-limit, limit),
        dtype=dtype,
        name=name,
    )
    layer.build((None, None, num_inputs))
    return layer
