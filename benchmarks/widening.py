"""Widens a small trained model to larger sizes with the same outputs (after Chen et al., 2016).

This allows measuring the speed of a large model on real sentences, with the hypotheses and lengths
of a trained model, without training it for days. Every feature, head and unit is copied as often as
fits; sums over copies are divided by their number; additional layers are identities.
"""

import math

import numpy as np

from tf_transformer import Transformer, TransformerConfig
from tf_transformer.layers.positions import sinusoidal_positions


def widen(model: Transformer, preset: str, **sizes: int) -> Transformer:
    """Returns a model with the sizes of a preset and the outputs of the given model.

    Args:
        model: a model with pre-norm, sinusoids, and one matrix for embeddings and logits, whose
            sizes divide those of the preset.
        preset: name of the preset.
        **sizes: settings with other sizes than the preset's.

    Raises:
        ValueError: the model has another structure.
    """
    own = model.config
    config = TransformerConfig.preset(
        preset,
        **sizes,
        source_vocab_size=own.source_vocab_size,
        target_vocab_size=own.target_vocab_size,
        norm_position="pre",
        positions="learned",
        max_length=own.max_length,
    )
    wide = Transformer(config)
    fits = all(
        getattr(config, name) % getattr(own, name) == 0 for name in ("d_model", "d_ff", "num_heads")
    )
    if own.norm_position != "pre" or own.tied_embeddings != "all" or not fits:
        raise ValueError(
            'Expected a pre-norm model with `tied_embeddings` "all" whose sizes divide those of '
            f"{preset}. Received: {own}"
        )
    weights = {weight.path.partition("/")[2]: np.asarray(weight) for weight in model.weights}
    for weight in wide.weights:
        name = weight.path.partition("/")[2]
        weight.assign(_widened(name, weight.shape, weights, own, config))
    return wide


def _widened(name, shape, weights, own, sizes):
    copies = sizes.d_model // own.d_model
    if name.endswith("positions/vectors"):
        positions = np.asarray(
            sinusoidal_positions(np.arange(shape[0]), own.d_model, own.positions)
        )
        return np.tile(positions, (1, copies))
    if name not in weights:  # an additional layer, which is an identity
        return np.ones(shape) if name.endswith("gamma") else np.zeros(shape)
    array = weights[name]
    if name.endswith("embeddings"):
        return np.tile(array, (1, copies)) / math.sqrt(copies)
    if name.startswith("decoder/final_norm"):  # the logits are a sum over copies
        return np.tile(array, copies) / math.sqrt(copies)
    if "attention/" in name:
        return _widen_attention(name, array, own, sizes)
    factors = [large // small for large, small in zip(shape, array.shape, strict=True)]
    return np.tile(array, factors) / (factors[0] if array.ndim == 2 else 1)


def _widen_attention(name, array, own, sizes):
    """Widens a weight whose output axis, or input axis for the output projection, has heads."""
    copies = sizes.d_model // own.d_model
    head_copies = sizes.num_heads // own.num_heads

    def tile_heads(x):
        """Copies heads and features of `(..., parts * d_model)`."""
        heads = x.reshape(*x.shape[:-1], -1, own.num_heads, own.d_model // own.num_heads)
        heads = np.tile(heads, (head_copies, copies // head_copies))
        return heads.reshape(*x.shape[:-1], -1)

    if "output_projection" in name:
        wide = np.tile(array, copies)
        return tile_heads(wide.T).T / copies if array.ndim == 2 else wide
    wide = tile_heads(array)
    if array.ndim == 2:
        wide = np.tile(wide, (copies, 1)) / copies
    if name.split("/")[-2].startswith("query"):
        # A score sums over the copies within a head and is divided by the root of the wider head.
        wide[..., : sizes.d_model] /= math.sqrt(copies // head_copies)
    return wide
