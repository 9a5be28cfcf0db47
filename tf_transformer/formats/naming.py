"""Conversion of weights by name, from and to other implementations of the Transformer.

A `Naming` describes the names and the layout of the original's weights. Conversion needs neither
model nor TensorFlow: the names of this project's weights follow from the configuration, see
`weight_shapes`. It is linear, so gradients can be converted, too.
"""

import dataclasses
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from tf_transformer.errors import InputError
from tf_transformer.storage.weight_shapes import Shapes

if TYPE_CHECKING:
    from tf_transformer.models.base import DecoderModel

# Edits of converted arrays by this project's names, such as a permutation of rows.
Edits = Mapping[str, Callable[[np.ndarray], np.ndarray]]


class Part(NamedTuple):
    """An array of the original, or one of the equal parts of its last axis.

    Attributes:
        name: name of the array.
        position: which part, from 0.
        num_parts: number of parts; 1 for the whole array.
    """

    name: str
    position: int = 0
    num_parts: int = 1


class Source(NamedTuple):
    """The parts that a weight of this project is the concatenation of, along the last axis.

    Attributes:
        parts: the parts of the original's arrays.
        transposed: whether these arrays are transposed.
    """

    parts: list[Part]
    transposed: bool = False


@dataclasses.dataclass(frozen=True, kw_only=True)
class Naming:
    """The names of an original's weights.

    Names are templates, in which `{stack}` is replaced by `encoder` or `decoder`, `{index}` by the
    layer's index from 0, `{number}` by that from 1, `{layer}` by the result of the template
    `layer`, and `{attention}` by that of `self_attention` or `cross_attention`. `matrix`, `vector`,
    `gain` or `shift` is put where `{kind}` stands, else at the end.

    Args:
        layer: name of a layer.
        decoder_layer: name of a layer of the decoder, if it is not as the encoder's.
        self_attention: name of the self-attention sublayer.
        cross_attention: name of the cross-attention sublayer.
        projections: names of the projections to query, key, value and output; `[i/n]` at the end
            means the i-th of n parts, from 0, that are concatenated in one matrix.
        norms: names of the norms of self-attention, cross-attention and feed-forward, by stack.
        final_norm: name of the norm after a stack.
        inner: name of the first dense layer of the feed-forward sublayer.
        outer: name of the second dense layer of the feed-forward sublayer.
        gated: name of the dense layer that is multiplied by the first one's activations, if any.
        relative: names of the vectors of relative positions, of keys and of values.
        matrix: suffix of a dense layer's matrix.
        vector: suffix of a dense layer's bias.
        gain: suffix of a norm's gamma.
        shift: suffix of a norm's beta.
        embeddings: names of source and target embedding.
        logits: name of the projection to logits.
        logits_bias: name of the bias of tied logits; of all logits if `logits` has no bias of its
            own.
        positions: names of the learned positions of source and target.
        embedding_norms: names of the norms of the embeddings of source and target.
        relative_bias: name of the bias of relative positions of a stack, `RelativeBias`.
        ssru: names of the dense layers of an SSRU, value and gate, of which the second has a bias.
        ssru_norm: name of the norm of an SSRU sublayer.
        transposed: whether matrices are `(outputs, inputs)`, as in PyTorch.
        vectors_as_rows: whether vectors are stored as `(1, width)`.
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
    decoder_layer: str = ""
    gated: str = ""
    relative: tuple[str, str] = ("", "")
    logits: str = ""
    logits_bias: str = ""
    positions: tuple[str, str] = ("", "")
    embedding_norms: tuple[str, str] = ("", "")
    relative_bias: str = ""
    ssru: tuple[str, ...] = ("", "")
    ssru_norm: str = ""
    transposed: bool = True
    vectors_as_rows: bool = False


# The dense layers of attention: the field of `Naming` with the name of their sublayer, and the
# indices of their projections.
_DENSE = {
    "self_attention/query_key_value": ("self_attention", (0, 1, 2)),
    "self_attention/output_projection": ("self_attention", (3,)),
    "cross_attention/query": ("cross_attention", (0,)),
    "cross_attention/key_value": ("cross_attention", (1, 2)),
    "cross_attention/output_projection": ("cross_attention", (3,)),
}
# The indices of the dense layers of SSRU, of its kernel and of its bias.
_SSRU = {"ssru/value_gate": (0, 1), "ssru": (1,)}
_RELATIVE = {"self_attention/relative_keys": 0, "self_attention/relative_values": 1}
_KIND = "{kind}"
_NORMS = {
    "self_attention_residual/norm": 0,
    "cross_attention_residual/norm": 1,
    "feed_forward_residual/norm": 2,
}


def sources_of(shapes: Shapes, naming: Naming) -> dict[str, Source]:
    """Returns where each weight of this project comes from.

    Args:
        shapes: this project's weights, the result of `weight_shapes` or a part of it.
        naming: names of the original.

    Raises:
        InputError: the original has no such weight.
    """
    return {name: _source_of(name, naming) for name in shapes}


def _source_of(name: str, naming: Naming) -> Source:
    module, _, kind = name.rpartition("/")
    if name == "logits_projection/bias" and naming.logits_bias:
        return Source([Part(naming.logits_bias)])
    found = _modules(module or name, naming)
    if not found or not all(found):
        raise InputError(f"The format has no weight for {name!r}")
    kinds = {
        "kernel": naming.matrix,
        "bias": naming.vector,
        "gate_bias": naming.vector,
        "gamma": naming.gain,
        "beta": naming.shift,
        "scale": naming.gain,
    }
    parts = [_part(template, kinds.get(kind, "")) for template in found]
    return Source(parts, naming.transposed and kind == "kernel")


def _modules(module: str, naming: Naming) -> list[str]:
    """Returns the original's names of one of this project's layers, empty if it has none."""
    outside = {
        "source_embedding": naming.embeddings[0],
        "target_embedding": naming.embeddings[1],
        "source_positions": naming.positions[0],
        "target_positions": naming.positions[1],
        "source_embedding_norm": naming.embedding_norms[0],
        "target_embedding_norm": naming.embedding_norms[1],
        "logits_projection": naming.logits,
        "logits_bias": naming.logits_bias,
    }
    if module in outside:
        return [outside[module]]
    if match := re.fullmatch(r"(encoder|decoder)/(final_norm|relative_bias)", module):
        return [getattr(naming, match[2]).format(stack=match[1], kind=_KIND)]
    match = re.fullmatch(r"(encoder|decoder)/layer_(\d+)/(.+)", module)
    if not match:
        return []
    stack, layer_index, part = match.groups()
    index = int(layer_index)
    layer = naming.decoder_layer if stack == "decoder" else ""
    layer = (layer or naming.layer).format(stack=stack, index=index, number=index + 1)
    if part in _NORMS:
        templates = [naming.norms[stack][_NORMS[part]]]
    elif part in _SSRU:
        templates = [naming.ssru[index] for index in _SSRU[part]]
    elif part == "ssru_residual/norm":
        templates = [naming.ssru_norm]
    elif part in _DENSE:
        sublayer, indices = _DENSE[part]
        attention = getattr(naming, sublayer).format(layer=layer)
        templates = [
            naming.projections[index].format(attention=attention, kind=_KIND) for index in indices
        ]
    elif part in _RELATIVE:
        attention = naming.self_attention.format(layer=layer)
        templates = [naming.relative[_RELATIVE[part]].format(attention=attention)]
    elif part == "feed_forward/inner":
        templates = [naming.inner, naming.gated] if naming.gated else [naming.inner]
    else:
        templates = [naming.outer if part == "feed_forward/outer" else ""]
    return [template.format(layer=layer, kind=_KIND) for template in templates]


def _part(template: str, kind: str) -> Part:
    """Parses `"weight[1/3]"` as part 1 of 3 of `weight`, and completes the name."""
    match = re.fullmatch(r"(.+)\[(\d+)/(\d+)\]", template)
    name, *numbers = match.groups() if match else [template]
    name = name.replace(_KIND, kind) if _KIND in name else name + kind
    return Part(name, *map(int, numbers))


def convert_weights(
    shapes: Shapes,
    naming: Naming,
    arrays: Mapping[str, np.ndarray],
    edits: Edits | None = None,
) -> Iterator[tuple[str, np.ndarray]]:
    """Converts the original's weights, or gradients with respect to them, to this project's layout.

    Names are checked before this returns. Arrays are read when they are needed, so that `arrays`
    can be a file.

    Args:
        shapes: this project's weights, the result of `weight_shapes` or a part of it.
        naming: names of the original.
        arrays: all arrays of the original by name.
        edits: changes to converted arrays, made before their shapes are checked.

    Returns:
        The name and the value of each weight in `shapes`.

    Raises:
        InputError: an array is missing or not used; later, that it has the wrong shape, or is not
            of a floating-point type.
    """
    sources = sources_of(shapes, naming)
    used = set()
    for name, source in sources.items():
        for part in source.parts:
            if part.name not in arrays:
                raise InputError(f"No weight {part.name!r} for {name!r} among the arrays")
            used.add(part.name)
    unused = [name for name in arrays if name not in used]
    if unused:
        raise InputError(f"The model has no weights for {', '.join(sorted(unused)[:5])}")
    return _converted(shapes, sources, arrays, edits)


def _converted(
    shapes: Shapes,
    sources: Mapping[str, Source],
    arrays: Mapping[str, np.ndarray],
    edits: Edits | None,
) -> Iterator[tuple[str, np.ndarray]]:
    for name, source in sources.items():
        array = _join(source, arrays)
        array = edits[name](array) if edits and name in edits else array
        if array.shape != shapes[name]:
            raise InputError(
                f"{source.parts[0].name}: expected the shape {shapes[name]} for {name!r}. "
                f"Received: {array.shape}"
            )
        yield name, array


def _join(source: Source, arrays: Mapping[str, np.ndarray]) -> np.ndarray:
    parts = []
    for part in source.parts:
        array = np.asarray(arrays[part.name])
        if array.dtype.kind != "f":
            raise InputError(
                f"{part.name}: expected floating-point numbers. Received: {array.dtype}"
            )
        array = array.T if source.transposed else array
        if part.num_parts > 1:
            if not array.ndim or array.shape[-1] % part.num_parts:
                raise InputError(
                    f"{part.name}: expected {part.num_parts} equal parts. Received: {array.shape}"
                )
            array = np.split(array, part.num_parts, axis=-1)[part.position]
        if array.ndim == 2 and array.shape[0] == 1:  # a vector of the shape (1, width)
            array = array[0]
        parts.append(array)
    if len(parts) == 1:
        return parts[0]
    if any(array.ndim == 0 or array.shape[:-1] != parts[0].shape[:-1] for array in parts):
        shapes = ", ".join(str(array.shape) for array in parts)
        raise InputError(f"{source.parts[0].name}: expected parts of equal height, got {shapes}")
    return np.concatenate(parts, axis=-1)


def revert_weights(
    naming: Naming, weights: Iterable[tuple[str, np.ndarray]]
) -> Iterator[tuple[str, np.ndarray]]:
    """Converts this project's weights to the original's layout: the inverse of `convert_weights`.

    Args:
        naming: names of the original.
        weights: name and value of each of this project's weights.

    Yields:
        The name and the value of each array of the original.

    Raises:
        InputError: the original has no such weight.
    """
    unfinished: dict[str, dict[int, np.ndarray]] = {}
    for name, weight in weights:
        source = _source_of(name, naming)
        values = np.split(weight, len(source.parts), axis=-1)
        for part, value in zip(source.parts, values, strict=True):
            found = unfinished.setdefault(part.name, {})
            found[part.position] = value
            if len(found) == part.num_parts:
                del unfinished[part.name]
                if part.num_parts > 1:
                    value = np.concatenate([found[i] for i in range(part.num_parts)], axis=-1)
                if naming.vectors_as_rows and value.ndim == 1:
                    value = value[None]
                yield part.name, value.T if source.transposed else value


def reverted_shapes(naming: Naming, shapes: Shapes) -> Shapes:
    """Returns the shapes of what `revert_weights` yields, by name.

    Args:
        naming: names of the original.
        shapes: this project's weights, the result of `weight_shapes`.

    Raises:
        InputError: the original has no such weight.
    """
    weights = ((name, np.broadcast_to(np.float32(0), shape)) for name, shape in shapes.items())
    return {name: array.shape for name, array in revert_weights(naming, weights)}


def load_weights(model: "DecoderModel", naming: Naming, arrays: Mapping[str, np.ndarray]) -> None:
    """Assigns the weights of an original to a model.

    Args:
        model: the model.
        naming: names of the original.
        arrays: all arrays of the original by name.

    Raises:
        InputError: the arrays do not fit, see `convert_weights`; the model is then unchanged.
    """
    variables = {variable.path.partition("/")[2]: variable for variable in model.weights}
    shapes = {
        name: tuple(variable.shape)
        for name, variable in variables.items()
        if "float" in variable.dtype
    }
    for name, array in list(convert_weights(shapes, naming, arrays)):
        variables[name].assign(array)
