"""The type and range of each setting of a `TransformerConfig`, and the constraints between them.

`validate` checks the settings of others.
"""

import functools
import typing
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Literal, TypeVar

import pydantic

from tf_transformer.errors import InputError
from tf_transformer.printable import shown

SIDES = ("encoder", "decoder")

Settings = TypeVar("Settings", bound=pydantic.BaseModel)

# The largest sizes: above those of any known model, and small enough to compute with. Known are
# vocabularies of 256,000 pieces (NLLB), 1,000 layers (DeepNet), and of dense models a d_model of
# 20,480, a d_ff of 81,920 and 128 heads (Megatron-Turing).
VocabSize = Annotated[int, pydantic.Field(strict=True, ge=1, le=2**24)]
NumLayers = Annotated[int, pydantic.Field(strict=True, ge=1, le=2**10)]
ModelWidth = Annotated[int, pydantic.Field(strict=True, ge=1, le=2**16)]
InnerWidth = Annotated[int, pydantic.Field(strict=True, ge=1, le=2**18)]
NumHeads = Annotated[int, pydantic.Field(strict=True, ge=1, le=2**10)]
HeadWidth = Annotated[int, pydantic.Field(strict=True, ge=1, le=2**12)]
NumPositions = Annotated[int, pydantic.Field(strict=True, ge=1, le=2**20)]
NumBuckets = Annotated[int, pydantic.Field(strict=True, ge=4, le=2**12)]
FirstPosition = Annotated[int, pydantic.Field(strict=True, ge=0, le=2**20)]
NumDraftHeads = Annotated[int, pydantic.Field(strict=True, ge=0, le=16)]
HeadIndex = Annotated[int, pydantic.Field(strict=True, ge=0, lt=2**10)]

Switch = Annotated[bool, pydantic.Field(strict=True)]
DropoutRate = Annotated[float, pydantic.Field(strict=True, ge=0, lt=1, allow_inf_nan=False)]
# Smaller ones could be 0 in float32, and a norm of equal values NaN.
Epsilon = Annotated[float, pydantic.Field(strict=True, ge=1e-15, le=1, allow_inf_nan=False)]

NormPosition = Literal["post", "pre"]
NormType = Literal["layer", "sample_std", "l1", "rms"]
Positions = Literal["interleaved", "concatenated", "marian", "learned", "none"]
NOT_SINUSOIDAL = ("learned", "none")
RelativePositions = Literal["none", "keys", "keys_values", "buckets"]
BeginEmbedding = Literal["own", "zero", "end"]
Autoregression = Literal["self_attention", "ssru"]
LanguageTags = Literal["source", "source_and_target", "both_in_source", "end_and_begin"]
Activation = Literal[
    "relu", "gelu", "gelu_tanh", "swish", "glu", "reglu", "geglu", "geglu_tanh", "swiglu"
]
# Those whose inner projection also computes a gate.
GATED_ACTIVATIONS = ("glu", "reglu", "geglu", "geglu_tanh", "swiglu")
TiedEmbeddings = Literal["none", "target", "inputs", "all"]


def check_choice(name: str, value: Any, choices: Any) -> None:
    """Checks an argument of a layer that is one of several words.

    Args:
        name: name of the argument.
        value: its value.
        choices: a `Literal`.

    Raises:
        InputError: the value is not one of the words.
    """
    words = typing.get_args(choices)
    if value not in words:
        raise InputError(f"`{name}` must be one of {words}. Received: {name}={shown(value)}")


def check_fields(config: Any, prefix: str = "") -> None:
    """Checks each field of a dataclass against its type annotation.

    Args:
        config: the dataclass; a field that holds another dataclass is skipped.
        prefix: what a message puts before the field's name, such as `encoder.`.

    Raises:
        InputError: a value is invalid; the message names the field, what was expected and what was
            received.
    """
    for name in _adapters(config.__class__):
        check_field(config.__class__, name, getattr(config, name), prefix)


def check_field(config_class: type, name: str, value: Any, prefix: str = "") -> None:
    """Checks the value of one field against its type annotation.

    Args:
        config_class: a dataclass.
        name: name of a field; one that does not exist or holds another dataclass is not checked.
        value: its value.
        prefix: as for `check_fields`.

    Raises:
        InputError: the value is invalid, see `check_fields`.
    """
    adapter = _adapters(config_class).get(name)
    if adapter is None:
        return
    try:
        adapter.validate_python(value)
    except pydantic.ValidationError as error:
        expected = error.errors()[0]["msg"]
        raise InputError(
            f"`{prefix}{name}` {expected.replace('Input should', 'must', 1)}. "
            f"Received: {prefix}{name}={shown(value)}"
        ) from error


@functools.cache
def _adapters(config_class):
    hints = typing.get_type_hints(config_class, include_extras=True)
    return {
        name: pydantic.TypeAdapter(kind)
        for name, kind in hints.items()
        if not hasattr(kind, "__dataclass_fields__")
    }


def check_relations(config: Any) -> None:
    """Checks the constraints between the settings of a `TransformerConfig`.

    Raises:
        InputError: the settings contradict each other; the message names them, what was expected
            and what was received.
    """
    if config.source_vocab_size is None and not config.decoder_only:
        raise InputError(
            "`source_vocab_size` is needed unless the model is `decoder_only`. "
            "Received: source_vocab_size=None"
        )
    _check_widths(config)
    _check_sharing(config)
    _check_meaning(config)
    if config.decoder_only:
        _check_decoder_only(config)


def _check_widths(config):
    for side in SIDES:
        resolved = config.side(side)
        for heads in ("num_heads", "cross_num_heads"):
            number = getattr(resolved, heads)
            if resolved.head_dim is None and resolved.d_model % number:
                name = f"{side}.{heads}" if getattr(getattr(config, side), heads) else "num_heads"
                raise InputError(
                    f"`{name}` must divide `d_model`. "
                    f"Received: {name}={number}, d_model={resolved.d_model}"
                )
        if resolved.d_model % 2 and config.positions not in NOT_SINUSOIDAL:
            raise InputError(
                "`d_model` must be even: sines and cosines share it. "
                f"Received: d_model={resolved.d_model}"
            )


def _check_sharing(config):
    if config.tied_embeddings not in ("inputs", "all") or config.decoder_only:
        return
    widths = {side: config.side(side).d_model for side in SIDES}
    for what, source, target in (
        (
            "vocabulary",
            f"source_vocab_size={config.source_vocab_size}",
            f"target_vocab_size={config.target_vocab_size}",
        ),
        ("width", f"encoder.d_model={widths['encoder']}", f"decoder.d_model={widths['decoder']}"),
    ):
        if source.partition("=")[2] != target.partition("=")[2]:
            raise InputError(
                f"`tied_embeddings={config.tied_embeddings!r}` needs one {what} for both sides. "
                f"Received: {source}, {target}"
            )


def _check_meaning(config):
    if config.encoder.cross_num_heads is not None:
        raise InputError(
            "Only the decoder has cross-attention. "
            f"Received: encoder.cross_num_heads={shown(config.encoder.cross_num_heads)}"
        )
    has_self_attention = not (config.decoder_only and config.decoder_autoregression == "ssru")
    if not has_self_attention and config.relative_positions != "none":
        raise InputError(
            "`relative_positions` must be 'none' without self-attention. Received: "
            f"relative_positions={config.relative_positions!r}, decoder_only=True, "
            "decoder_autoregression='ssru'"
        )
    is_ordered = config.positions != "none" or config.relative_positions != "none"
    if has_self_attention and not is_ordered:
        raise InputError(
            "`positions='none'` needs `relative_positions`: without either, a model cannot tell "
            "the order of its words"
        )
    if config.first_position and config.positions in NOT_SINUSOIDAL:
        raise InputError(
            "`first_position` must be 0 unless `positions` are sinusoids. "
            f"Received: first_position={config.first_position}, positions={config.positions!r}"
        )
    if config.relative_positions == "buckets":
        _check_buckets(config)
    if config.language_tags == "both_in_source" and config.relative_positions != "none":
        raise InputError(
            "`language_tags='both_in_source'` exchanges the positions of two tags, which "
            "`relative_positions` do not. "
            f"Received: relative_positions={config.relative_positions!r}"
        )
    if config.language_tags == "end_and_begin":
        _check_end_and_begin(config)
    num_heads = config.side("decoder").cross_num_heads
    if config.alignment_head is not None and config.alignment_head >= num_heads:
        raise InputError(
            f"`alignment_head` must be less than the number of heads of the cross-attention, "
            f"{num_heads}. Received: alignment_head={config.alignment_head}"
        )
    if config.draft_heads and config.relative_positions == "keys_values":
        raise InputError(
            "`draft_heads` do not work with `relative_positions` 'keys_values'. "
            f"Received: draft_heads={config.draft_heads}"
        )
    if config.draft_heads and config.side("decoder").head_dim is not None:
        raise InputError(
            "`draft_heads` need `head_dim` None, with which the heads divide `d_model`. Received: "
            f"draft_heads={config.draft_heads}, head_dim={config.side('decoder').head_dim}"
        )


def _check_end_and_begin(config):
    """The tags change positions, and no token attends to the begin id."""
    for name, supported in (
        ("relative_positions", "none"),
        ("decoder_autoregression", "self_attention"),
        ("draft_heads", 0),
    ):
        if (value := getattr(config, name)) != supported:
            raise InputError(
                f"`language_tags='end_and_begin'` needs `{name}={supported!r}`. "
                f"Received: {name}={value!r}"
            )


def _check_buckets(config):
    """Half of the buckets of one direction are single distances, the others reach further."""
    exact = config.relative_buckets // 2
    if config.max_relative_distance <= exact:
        raise InputError(
            "`max_relative_distance` must be more than half of `relative_buckets`. Received: "
            f"max_relative_distance={config.max_relative_distance}, "
            f"relative_buckets={config.relative_buckets}"
        )


def _check_decoder_only(config):
    given = {"source_vocab_size": config.source_vocab_size}
    given |= {f"encoder.{name}": value for name, value in vars(config.encoder).items()}
    given["decoder.cross_num_heads"] = config.decoder.cross_num_heads
    given["alignment_head"] = config.alignment_head
    given["draft_heads"] = config.draft_heads or None
    for name, value in given.items():
        if value is not None:
            raise InputError(
                f"`decoder_only` models have no encoder and no use for `{name}`. "
                f"Received: {name}={shown(value)}"
            )
    if config.language_tags != "source":
        raise InputError(
            "`decoder_only` models have no source whose tag could name a language. "
            f"Received: language_tags={config.language_tags!r}"
        )
    if config.tied_embeddings not in ("none", "target"):
        raise InputError(
            "`tied_embeddings` of a `decoder_only` model must be 'none' or 'target'. "
            f"Received: tied_embeddings={config.tied_embeddings!r}"
        )


def validate(
    settings_class: type[Settings],
    values: Mapping[str, Any],
    where: object | Callable[[str], object],
) -> Settings:
    """Checks the types and ranges of settings.

    Args:
        settings_class: their class.
        values: the settings by name.
        where: their file, for messages; or a function that returns the file of a setting.

    Raises:
        InputError: a setting is missing or wrong; the message names it, what was expected and what
            was received.
    """
    try:
        return settings_class.model_validate(dict(values))
    except pydantic.ValidationError as error:
        first = error.errors()[0]
        name = ".".join(map(str, first["loc"]))
        received = (
            "" if first["type"] == "missing" else f". Received: {name}={shown(first['input'])}"
        )
        file = where(name) if callable(where) else where
        raise InputError(f"{file}: {name}: {first['msg']}{received}") from error
