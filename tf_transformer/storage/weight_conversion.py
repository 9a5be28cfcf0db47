"""Weights of other programs, by the names that they have there.

A `Naming` says what an original calls its weights and how they lie; `translate_weights` puts them
into this project's names and layout. The map is linear, so it also carries gradients across.
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

# The name of an array, and which of how many equal parts of its outputs is meant, or None.
Piece = tuple[str, tuple[int, int] | None]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Naming:
    """What an original calls its weights.

    In the templates `{stack}` stands for `encoder` or `decoder`, `{layer}` for what `layer` gives,
    `{number}` for the layer's number from 0, `{attention}` for one of the attention names.

    Args:
        layer: of a layer.
        self_attention, cross_attention: of the attention sublayers.
        projections: of query, key, value and output; a name followed by `[i/n]` is the i-th of n
            parts, from 0, that lie side by side in one matrix.
        norms: of the norms of self-attention, cross-attention and feed-forward, by stack.
        final_norm: of the norm after a stack.
        inner, outer: of the feed-forward sublayer.
        matrix, vector: endings of a dense layer's matrix and bias.
        gain, shift: endings of a norm's two vectors.
        embeddings: of source and target embedding.
        logits: of the projection to logits.
        logits_bias: of the bias of tied logits.
        transposed: matrices are `(outputs, inputs)`, as in PyTorch.
        ignored: beginnings of names that repeat or compute what others say.
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
    layer="{stack}.layers.{number}",
    self_attention="{layer}.self_attn",
    cross_attention="{layer}.src_attn",
    projections=tuple(f"{{attention}}.linears.{number}" for number in range(4)),
    norms={
        "encoder": ("{layer}.sublayer.0.norm", "", "{layer}.sublayer.1.norm"),
        "decoder": tuple(f"{{layer}}.sublayer.{number}.norm" for number in range(3)),
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

# `torch.nn.Transformer`, which has neither embeddings nor logits.
TORCH = Naming(
    layer="{stack}.layers.{number}",
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

# Hugging Face's `MarianMTModel` with one vocabulary.
MARIAN = Naming(
    layer="model.{stack}.layers.{number}",
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

# The model of NiuTensor's article, by names of this project: fused and not transposed.
NIUTENSOR = Naming(
    layer="{stack}.{number}",
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


def translate_weights(
    pairs: Iterable[tuple[keras.Variable, list[Piece], bool]],
    naming: Naming,
    theirs: Mapping[str, np.ndarray],
) -> dict[str, np.ndarray]:
    """The original's weights, or gradients with respect to them, in this project's layout.

    Args:
        pairs: of `correspondence` or `stack_correspondence`.
        naming: of the original.
        theirs: every array of the original by its name.

    Returns:
        One array for every variable in `pairs`, by its path.

    Raises:
        ValueError: an array is missing, has another shape, or is of no use here.
    """
    ours, used = {}, set()
    for variable, pieces, transposed in pairs:
        parts = []
        for name, part in pieces:
            if name not in theirs:
                raise InputError(f"No weight {name!r} for {variable.path!r} among those given")
            used.add(name)
            array = np.asarray(theirs[name])
            array = array.T if transposed else array
            parts.append(np.split(array, part[1], axis=-1)[part[0]] if part else array)
        array = np.concatenate(parts, axis=-1)
        if array.ndim == 2 and array.shape[0] == 1:  # a bias kept as (1, width)
            array = array[0]
        if array.shape != tuple(variable.shape):
            raise InputError(
                f"{pieces[0][0]}: expected the shape {tuple(variable.shape)} for "
                f"{variable.path!r}. Received: {array.shape}"
            )
        ours[variable.path] = array
    unused = [name for name in theirs if name not in used and not name.startswith(naming.ignored)]
    if unused:
        raise InputError(f"The model has no place for {', '.join(sorted(unused)[:5])}")
    return ours


def load_weights(model: DecoderModel, naming: Naming, theirs: Mapping[str, np.ndarray]) -> None:
    """Gives the model the weights of an original.

    Raises:
        ValueError: the two do not fit, see `translate_weights`; nothing is changed then.
    """
    ours = translate_weights(correspondence(model, naming), naming, theirs)
    variables = [variable for variable in model.weights if "float" in variable.dtype]
    for variable in variables:
        if variable.path not in ours:
            raise InputError(f"The original has nothing for {variable.path!r}")
    for variable in variables:
        variable.assign(ours[variable.path])


def correspondence(
    model: DecoderModel, naming: Naming
) -> Iterator[tuple[keras.Variable, list[Piece], bool]]:
    """Every variable of the model with the pieces that lie in it, side by side, in order.

    The third value says whether those are to be transposed.
    """
    embeddings = {naming.embeddings[1]: model.target_embedding}
    if hasattr(model, "source_embedding"):
        yield from stack_correspondence(model.encoder, "encoder", naming)
        embeddings[naming.embeddings[0]] = model.source_embedding
    yield from stack_correspondence(model.decoder, "decoder", naming)
    for name, embedding in embeddings.items():
        if name:
            yield embedding.embeddings, [(name, None)], False
    if model.logits_projection is not None:
        yield from _dense(model.logits_projection, [naming.logits], naming)
    elif model.config.logits_bias:
        yield model.logits_bias, [(naming.logits_bias, None)], False


def stack_correspondence(
    stack: Stack, stack_name: str, naming: Naming
) -> Iterator[tuple[keras.Variable, list[Piece], bool]]:
    """The part of `correspondence` that concerns one stack, `encoder` or `decoder`."""
    for number, layer in enumerate(stack.stacked_layers):
        place = dict(layer=naming.layer.format(stack=stack_name, number=number))
        norms = [template.format(**place) for template in naming.norms[stack_name]]
        residuals = [layer.self_attention_residual, None, layer.feed_forward_residual]
        yield from _attention(layer.self_attention, naming.self_attention.format(**place), naming)
        if getattr(layer, "has_cross_attention", False):
            residuals[1] = layer.cross_attention_residual
            name = naming.cross_attention.format(**place)
            yield from _attention(layer.cross_attention, name, naming)
        for residual, name in zip(residuals, norms, strict=True):
            if residual is not None:
                yield from _norm(residual.norm, name, naming)
        yield from _dense(layer.feed_forward.inner, [naming.inner.format(**place)], naming)
        yield from _dense(layer.feed_forward.outer, [naming.outer.format(**place)], naming)
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


def _split_name(name: str) -> Piece:
    """`"weight[1/3]"` to `("weight", (1, 3))`, any other name to itself and None."""
    match = re.fullmatch(r"(.+)\[(\d+)/(\d+)\]", name)
    return (match[1], (int(match[2]), int(match[3]))) if match else (name, None)
