"""Removal of attention heads from a model: temporary (masking) or permanent (pruning)."""

import contextlib
from collections.abc import Iterator
from typing import Any, NamedTuple

import keras
from keras import ops

from tf_transformer.config import TransformerConfig
from tf_transformer.errors import InputError


class HeadMasks(NamedTuple):
    """Factors of the heads' outputs: 0 removes a head, 1 keeps it; None keeps all heads.

    Attributes:
        encoder: encoder self-attention, `(num_encoder_layers, num_heads)`.
        decoder: decoder self-attention, `(num_decoder_layers, num_heads)`.
        cross: cross-attention, `(num_decoder_layers, cross_num_heads)`.
    """

    encoder: Any = None
    decoder: Any = None
    cross: Any = None

    def check(self, config: TransformerConfig) -> None:
        """Checks that the masks fit the model.

        Args:
            config: the model's settings.

        Raises:
            InputError: a mask has the wrong shape, or the model has no such heads.
        """
        encoder, decoder = config.side("encoder"), config.side("decoder")
        shapes = {
            "encoder": (config.num_encoder_layers, encoder.num_heads),
            "decoder": (config.num_decoder_layers, decoder.num_heads),
            "cross": (config.num_decoder_layers, decoder.cross_num_heads),
        }
        for name, mask in self._asdict().items():
            if mask is None:
                continue
            if config.decoder_only and name != "decoder":
                raise InputError(f"A decoder-only model has no {name} heads to mask")
            if config.decoder_autoregression == "ssru" and name == "decoder":
                raise InputError(
                    "A decoder with `decoder_autoregression='ssru'` has no self-attention heads to "
                    "mask"
                )
            if ops.shape(mask) != shapes[name]:
                raise InputError(
                    f"The {name} mask must have a value for every layer and head, "
                    f"{shapes[name]}. Received: {ops.shape(mask)}"
                )


@contextlib.contextmanager
def masked_heads(model: Any, masks: HeadMasks) -> Iterator[None]:
    """Multiplies the outputs of heads by the masks' factors, in a `with` statement.

        with masked_heads(model, HeadMasks(encoder=[[1, 1], [0, 1]])):
            logits = model(inputs)

    Has no effect on graphs that are already traced, such as that of `Model.predict`. As in any
    `keras.StatelessScope`, variables cannot be changed inside.

    Args:
        model: a `Transformer` or `LanguageModel`.
        masks: a factor for every head.

    Raises:
        InputError: the masks do not fit the model, or the model is quantized.
    """
    with keras.StatelessScope(state_mapping=_masked_kernels(model, masks)):
        yield


def prune_heads(model: Any, masks: HeadMasks) -> None:
    """Removes heads permanently: sets their rows of the output projection to zero.

    The pruned model translates, trains and is saved like any other. The weights keep their shapes.

    Args:
        model: a `Transformer` or `LanguageModel`.
        masks: 0 at heads to remove, 1 at all others.

    Raises:
        InputError: the masks do not fit the model, or the model is quantized.
    """
    for kernel, masked in _masked_kernels(model, masks):
        kernel.assign(masked)


def _masked_kernels(model, masks) -> list[tuple[Any, Any]]:
    """Returns pairs of each output projection's kernel and its masked value.

    The kernel is multiplied by the concatenated outputs of all heads, so scaling the rows of a head
    has the same effect as scaling the head's output.
    """
    masks.check(model.config)
    kernels = []
    for stack, attention, mask in (
        ("encoder", "self_attention", masks.encoder),
        ("decoder", "self_attention", masks.decoder),
        ("decoder", "cross_attention", masks.cross),
    ):
        if mask is None:
            continue
        for layer_index, layer in enumerate(getattr(model, stack).stacked_layers):
            kernel = getattr(layer, attention).output_projection.kernel
            if kernel is None:
                raise InputError(
                    "Heads of a quantized model cannot be masked. Mask before quantization"
                )
            factors = ops.cast(mask[layer_index], kernel.dtype)
            rows = ops.repeat(factors, kernel.shape[0] // len(mask[layer_index]))
            kernels.append((kernel, ops.convert_to_tensor(kernel) * rows[:, None]))
    return kernels
