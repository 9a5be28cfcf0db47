"""A small trained model in a large one's shape, with the same outputs (after Chen et al., 2016).

So a large model's speed can be measured on real sentences, with hypotheses and lengths as a trained
model has them, without the days that training it would take. Every feature, head and unit is copied
as often as fits; what sums over copies is divided by their number; layers on top add nothing.
"""

import math

import numpy as np

from tf_transformer import Transformer, TransformerConfig
from tf_transformer.layers.positions import sinusoidal_positions


def widen(model: Transformer, preset: str) -> Transformer:
    """The model in the shape of a preset.

    Args:
        model: with norms that come first, sinusoids, and one matrix for embeddings and logits; the
            preset's sizes must be multiples of its own.
        preset: name of the sizes.

    Raises:
        ValueError: the model is built otherwise.
    """
    own = model.config
    sizes = TransformerConfig.preset(
        preset,
        source_vocab_size=own.source_vocab_size,
        target_vocab_size=own.target_vocab_size,
        norm_position="pre",
        positions="learned",
        max_length=own.max_length,
    )
    wide = Transformer(sizes)
    fits = all(
        getattr(sizes, name) % getattr(own, name) == 0 for name in ("d_model", "d_ff", "num_heads")
    )
    if own.norm_position != "pre" or own.tied_embeddings != "all" or not fits:
        raise ValueError(f"Cannot widen a model of {own} to {preset}")
    weights = {weight.path.partition("/")[2]: np.asarray(weight) for weight in model.weights}
    for weight in wide.weights:
        name = weight.path.partition("/")[2]
        weight.assign(_widened(name, weight.shape, weights, own, sizes))
    return wide


def _widened(name, shape, weights, own, sizes):
    copies = sizes.d_model // own.d_model
    if name.endswith("positions/vectors"):
        positions = np.asarray(
            sinusoidal_positions(np.arange(shape[0]), own.d_model, own.positions)
        )
        return np.tile(positions, (1, copies))
    if name not in weights:  # of a layer on top: it hands on what it gets
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
    """Parts of `(heads, head_dim)`: on the output side, but for the output projection."""
    copies = sizes.d_model // own.d_model
    head_copies = sizes.num_heads // own.num_heads

    def tile_heads(x):
        """`(..., parts * d_model)` with the heads' structure."""
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
        # Products of queries and keys are sums over the copies within a head, divided by its root.
        wide[..., : sizes.d_model] /= math.sqrt(copies // head_copies)
    return wide
