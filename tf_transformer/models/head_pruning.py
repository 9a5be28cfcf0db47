"""Attention heads taken out of a model: masked for a while, or pruned for good."""

import contextlib
from collections.abc import Iterator
from typing import Any, NamedTuple

import keras
from keras import ops

from tf_transformer.config import TransformerConfig
from tf_transformer.errors import InputError


class HeadMasks(NamedTuple):
    """One factor for the output of each head; 0 takes it out, 1 keeps it, None keeps all.

    Attributes:
        encoder, decoder: `(num_layers, num_heads)`.
        cross: `(num_decoder_layers, cross_num_heads)`.
    """

    encoder: Any = None
    decoder: Any = None
    cross: Any = None

    def check(self, config: TransformerConfig) -> None:
        """Checks that the masks fit the model.

        Raises:
            ValueError: a mask has another shape, or the model has no such heads.
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
            if ops.shape(mask) != shapes[name]:
                raise InputError(
                    f"The {name} mask must have a value for every layer and head, "
                    f"{shapes[name]}. Received: {ops.shape(mask)}"
                )


@contextlib.contextmanager
def masked_heads(model: Any, masks: HeadMasks) -> Iterator[None]:
    """Multiplies the outputs of heads with the masks' factors, within a `with` statement.

        with masked_heads(model, HeadMasks(encoder=[[1, 1], [0, 1]])):
            logits = model(inputs)

    Graphs that were traced before, such as those of `Model.predict`, keep all heads. As in any
    `keras.StatelessScope`, variables do not change inside.

    Args:
        model: a `Transformer` or `LanguageModel`.
        masks: a factor for every head.

    Raises:
        ValueError: the masks do not fit the model.
    """
    with keras.StatelessScope(state_mapping=_masked_kernels(model, masks)):
        yield


def prune_heads(model: Any, masks: HeadMasks) -> None:
    """Takes heads out for good: their part of the output projection becomes zero.

    The pruned model translates, trains and is saved like any other. The arrays keep their sizes.

    Args:
        model: a `Transformer` or `LanguageModel`.
        masks: 0 at heads to take out.

    Raises:
        ValueError: the masks do not fit the model.
    """
    for kernel, masked in _masked_kernels(model, masks):
        kernel.assign(masked)


def _masked_kernels(model, masks) -> list[tuple[Any, Any]]:
    """The output projections' kernels, and what they are with the masks.

    The output of all heads, side by side, is multiplied with the kernel: the rows of a head, times
    its factor, do what the factor would do to the head's output.
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
                raise InputError("Heads cannot be masked in a model that is quantized")
            factors = ops.cast(mask[layer_index], kernel.dtype)
            rows = ops.repeat(factors, kernel.shape[0] // len(mask[layer_index]))
            kernels.append((kernel, ops.convert_to_tensor(kernel) * rows[:, None]))
    return kernels
