"""Conversion of weights from other implementations of the Transformer.

A `Naming` describes the names and layout of the original's weights; `convert_weights` converts them
to those of this project. The conversion is linear, so gradients can be converted, too.
"""

import dataclasses
import re
from collections.abc import Iterable, Iterator, Mapping

import keras
import numpy as np

from tf_transformer.errors import InputError
from tf_transformer.layers.attention import MultiHeadAttention
from tf_transformer.layers.stack import Stack
from tf_transformer.models.base import DecoderModel

# The name of an array, and None for all of it, or (i, n) for the i-th of n equal parts of its last
# axis.
ArrayPart = tuple[str, tuple[int, int] | None]
# A variable of the model, the parts of the original's arrays whose concatenation it is, and whether
# these have to be transposed first.
Mapped = tuple[keras.Variable, list[ArrayPart], bool]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Naming:
    """The names of an original's weights.

    Names are templates, in which `{stack}` is replaced by `encoder` or `decoder`, `{index}` by the
    layer's index from 0, `{layer}` by the result of the template `layer`, and `{attention}` by that
    of `self_attention` or `cross_attention`.

    Args:
        layer: name of a layer.
        self_attention: name of the self-attention sublayer.
        cross_attention: name of the cross-attention sublayer.
        projections: names of the projections to query, key, value and output; `[i/n]` at the end
            means the i-th of n parts, from 0, that are concatenated in one matrix.
        norms: names of the norms of self-attention, cross-attention and feed-forward, by stack.
        final_norm: name of the norm after a stack.
        inner: name of the first dense layer of the feed-forward sublayer.
        outer: name of the second dense layer of the feed-forward sublayer.
        matrix: suffix of a dense layer's matrix.
        vector: suffix of a dense layer's bias.
        gain: suffix of a norm's gamma.
        shift: suffix of a norm's beta.
        embeddings: names of source and target embedding.
        logits: name of the projection to logits.
        logits_bias: name of the bias of tied logits.
        transposed: whether matrices are `(outputs, inputs)`, as in PyTorch.
        ignored: prefixes of names that are not needed, such as copies of other arrays.
    """

    layer: str
    self_attention: str
    cross_attention: str
    projections: tuple[str, ...]
    norms: dict[str, tuple[str, ...]]
    final_norm: str
    inner: str
    outer: str
    matrix: str
    vector: str
    gain: str
    shift: str
    embeddings: tuple[str, str] = ("", "")
    logits: str = ""
    logits_bias: str = ""
    transposed: bool = True
    ignored: tuple[str, ...] = ()


# `make_model` of Harvard's Annotated Transformer.
ANNOTATED = Naming(
    layer="{stack}.layers.{index}",
    self_attention="{layer}.self_attn",
    cross_attention="{layer}.src_attn",
    projections=tuple(f"{{attention}}.linears.{i}" for i in range(4)),
    norms={
        "encoder": ("{layer}.sublayer.0.norm", "", "{layer}.sublayer.1.norm"),
        "decoder": tuple(f"{{layer}}.sublayer.{i}.norm" for i in range(3)),
    },
    final_norm="{stack}.norm",
    inner="{layer}.feed_forward.w_1",
    outer="{layer}.feed_forward.w_2",
    matrix=".weight",
    vector=".bias",
    gain=".a_2",
    shift=".b_2",
    embeddings=("src_embed.0.lut.weight", "tgt_embed.0.lut.weight"),
    logits="generator.proj",
    ignored=("src_embed.1.", "tgt_embed.1."),
)

# `torch.nn.Transformer`, which has no embeddings and no projection to logits.
TORCH = Naming(
    layer="{stack}.layers.{index}",
    self_attention="{layer}.self_attn",
    cross_attention="{layer}.multihead_attn",
    projections=(
        "{attention}.in_proj_[0/3]",
        "{attention}.in_proj_[1/3]",
        "{attention}.in_proj_[2/3]",
        "{attention}.out_proj.",
    ),
    norms={
        "encoder": ("{layer}.norm1", "", "{layer}.norm2"),
        "decoder": ("{layer}.norm1", "{layer}.norm2", "{layer}.norm3"),
    },
    final_norm="{stack}.norm",
    inner="{layer}.linear1.",
    outer="{layer}.linear2.",
    matrix="weight",
    vector="bias",
    gain=".weight",
    shift=".bias",
)

# Hugging Face's `MarianMTModel` with a shared vocabulary.
MARIAN = Naming(
    layer="model.{stack}.layers.{index}",
    self_attention="{layer}.self_attn",
    cross_attention="{layer}.encoder_attn",
    projections=tuple(f"{{attention}}.{name}_proj" for name in ("q", "k", "v", "out")),
    norms={
        stack: (
            "{layer}.self_attn_layer_norm",
            "{layer}.encoder_attn_layer_norm",
            "{layer}.final_layer_norm",
        )
        for stack in ("encoder", "decoder")
    },
    final_norm="model.{stack}.layer_norm",
    inner="{layer}.fc1",
    outer="{layer}.fc2",
    matrix=".weight",
    vector=".bias",
    gain=".weight",
    shift=".bias",
    embeddings=("model.shared.weight", "model.shared.weight"),
    logits_bias="final_logits_bias",
    ignored=("model.encoder.embed_", "model.decoder.embed_", "lm_head."),
)

# The model of NiuTensor's article, with names of this project. Query, key and value are fused, and
# matrices are not transposed.
NIUTENSOR = Naming(
    layer="{stack}.{index}",
    self_attention="{layer}.self_attention",
    cross_attention="{layer}.cross_attention",
    projections=(
        *(f"{{attention}}.query_key_value[{i}/3]" for i in range(3)),
        "{attention}.output",
    ),
    norms={
        stack: (
            "{layer}.self_attention_norm",
            "{layer}.cross_attention_norm",
            "{layer}.feed_forward_norm",
        )
        for stack in ("encoder", "decoder")
    },
    final_norm="{stack}.norm",
    inner="{layer}.inner",
    outer="{layer}.outer",
    matrix=".weight",
    vector=".bias",
    gain=".weight",
    shift=".bias",
    embeddings=("source.embedding", "target.embedding"),
    logits="output",
    transposed=False,
)


def convert_weights(
    mapping: Iterable[Mapped],
    naming: Naming,
    arrays: Mapping[str, np.ndarray],
) -> dict[str, np.ndarray]:
    """Converts the original's weights, or gradients with respect to them, to this project's layout.

    Args:
        mapping: the result of `map_weights` or `map_stack_weights`.
        naming: names of the original.
        arrays: all arrays of the original by name.

    Returns:
        One array for every variable in `mapping`, by the variable's path.

    Raises:
        InputError: an array is missing, has the wrong shape, or is not used.
    """
    converted, used = {}, set()
    for variable, array_parts, transposed in mapping:
        parts = []
        for name, part in array_parts:
            if name not in arrays:
                raise InputError(f"No weight {name!r} for {variable.path!r} among the arrays")
            used.add(name)
            array = np.asarray(arrays[name])
            array = array.T if transposed else array
            parts.append(np.split(array, part[1], axis=-1)[part[0]] if part else array)
        array = np.concatenate(parts, axis=-1)
        if array.ndim == 2 and array.shape[0] == 1:  # a bias of the shape (1, width)
            array = array[0]
        if array.shape != tuple(variable.shape):
            raise InputError(
                f"{array_parts[0][0]}: expected the shape {tuple(variable.shape)} for "
                f"{variable.path!r}. Received: {array.shape}"
            )
        converted[variable.path] = array
    unused = [name for name in arrays if name not in used and not name.startswith(naming.ignored)]
    if unused:
        raise InputError(f"The model has no weights for {', '.join(sorted(unused)[:5])}")
    return converted


def load_weights(model: DecoderModel, naming: Naming, arrays: Mapping[str, np.ndarray]) -> None:
    """Assigns the weights of an original to a model.

    Args:
        model: the model.
        naming: names of the original.
        arrays: all arrays of the original by name.

    Raises:
        InputError: the arrays do not fit, see `convert_weights`; the model is then unchanged.
    """
    converted = convert_weights(map_weights(model, naming), naming, arrays)
    variables = [variable for variable in model.weights if "float" in variable.dtype]
    for variable in variables:
        if variable.path not in converted:
            raise InputError(f"No weight of the original for {variable.path!r}")
    for variable in variables:
        variable.assign(converted[variable.path])


def map_weights(model: DecoderModel, naming: Naming) -> Iterator[Mapped]:
    """Yields every variable of the model with the original's arrays, see `Mapped`."""
    embeddings = {naming.embeddings[1]: model.target_embedding}
    if hasattr(model, "source_embedding"):
        yield from map_stack_weights(model.encoder, "encoder", naming)
        embeddings[naming.embeddings[0]] = model.source_embedding
    yield from map_stack_weights(model.decoder, "decoder", naming)
    for name, embedding in embeddings.items():
        if name:
            yield embedding.embeddings, [(name, None)], False
    if model.logits_projection is not None:
        yield from _dense(model.logits_projection, [naming.logits], naming)
    elif model.config.logits_bias:
        yield model.logits_bias, [(naming.logits_bias, None)], False


def map_stack_weights(stack: Stack, stack_name: str, naming: Naming) -> Iterator[Mapped]:
    """Does what `map_weights` does for one stack, "encoder" or "decoder".

    Raises:
        InputError: the decoder has no self-attention.
    """
    for layer_index, layer in enumerate(stack.stacked_layers):
        if not hasattr(layer, "self_attention"):
            raise InputError(
                "A `Naming` has no names for the weights of a decoder with "
                "`decoder_autoregression='ssru'`"
            )
        layer_name = naming.layer.format(stack=stack_name, index=layer_index)

        def name_of(template, layer_name=layer_name):
            return template.format(layer=layer_name)

        residuals = [layer.self_attention_residual, None, layer.feed_forward_residual]
        yield from _attention(layer.self_attention, name_of(naming.self_attention), naming)
        if getattr(layer, "has_cross_attention", False):
            residuals[1] = layer.cross_attention_residual
            yield from _attention(layer.cross_attention, name_of(naming.cross_attention), naming)
        for residual, template in zip(residuals, naming.norms[stack_name], strict=True):
            if residual is not None:
                yield from _norm(residual.norm, name_of(template), naming)
        yield from _dense(layer.feed_forward.inner, [name_of(naming.inner)], naming)
        yield from _dense(layer.feed_forward.outer, [name_of(naming.outer)], naming)
    if stack.final_norm is not None:
        yield from _norm(stack.final_norm, naming.final_norm.format(stack=stack_name), naming)


def _attention(attention: MultiHeadAttention, name: str, naming: Naming):
    query, key, value, output = (part.format(attention=name) for part in naming.projections)
    if hasattr(attention, "query_key_value"):
        yield from _dense(attention.query_key_value, [query, key, value], naming)
    else:
        yield from _dense(attention.query, [query], naming)
        yield from _dense(attention.key_value, [key, value], naming)
    yield from _dense(attention.output_projection, [output], naming)


def _dense(dense: keras.layers.Dense, names: list[str], naming: Naming):
    parts = [_split_name(name) for name in names]
    yield dense.kernel, [(name + naming.matrix, part) for name, part in parts], naming.transposed
    if dense.use_bias:
        yield dense.bias, [(name + naming.vector, part) for name, part in parts], False


def _norm(norm: keras.layers.Layer, name: str, naming: Naming):
    yield norm.gamma, [(name + naming.gain, None)], False
    if hasattr(norm, "beta"):
        yield norm.beta, [(name + naming.shift, None)], False


def _split_name(name: str) -> ArrayPart:
    """Parses `"weight[1/3]"` as `("weight", (1, 3))`, and other names as `(name, None)`."""
    match = re.fullmatch(r"(.+)\[(\d+)/(\d+)\]", name)
    return (match[1], (int(match[2]), int(match[3]))) if match else (name, None)
