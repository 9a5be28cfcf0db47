"""Which heads take part: masked for one pass, or pruned for good."""

from typing import Any, NamedTuple

import numpy as np

from tf_transformer.config import TransformerConfig


class HeadMasks(NamedTuple):
    """Which heads take part; 0 takes a head out, 1 keeps it, None keeps all.

    Attributes:
        encoder, decoder: `(num_layers, num_heads)`.
        cross: `(num_decoder_layers, cross_num_heads)`.
    """

    encoder: Any = None
    decoder: Any = None
    cross: Any = None

    def check(self, config: TransformerConfig) -> None:
        """Refuses masks that do not fit the model.

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
                raise ValueError(f"A decoder-only model has no {name} heads to mask")
            if tuple(mask.shape) != shapes[name]:
                raise ValueError(
                    f"The {name} mask must have a value for every layer and head, "
                    f"{shapes[name]}. Received: {tuple(mask.shape)}"
                )


def prune_heads(model: Any, masks: HeadMasks) -> None:
    """Takes heads out for good: their part of the output projection becomes zero.

    From then on the model translates, trains on and is saved as one without them. The arrays keep
    their sizes.

    Args:
        model: a `Transformer` or `LanguageModel`.
        masks: 0 at heads to take out.

    Raises:
        ValueError: the masks do not fit the model.
    """
    masks.check(model.config)
    for stack, attention, mask in (
        ("encoder", "self_attention", masks.encoder),
        ("decoder", "self_attention", masks.decoder),
        ("decoder", "cross_attention", masks.cross),
    ):
        if mask is None:
            continue
        for layer, kept in zip(getattr(model, stack).stacked_layers, mask, strict=True):
            kernel = getattr(layer, attention).output_projection.kernel
            rows = np.repeat(np.asarray(kept) != 0, kernel.shape[0] // len(kept))
            kernel.assign(np.asarray(kernel) * rows[:, np.newaxis])
