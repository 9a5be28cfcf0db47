"""Which settings of a model a format can hold."""

import dataclasses
import pathlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from tf_transformer.config import SideConfig, TransformerConfig
from tf_transformer.config_checks import SIDES
from tf_transformer.errors import InputError
from tf_transformer.text.vocabulary import Vocabulary


class ModelToConvert(NamedTuple):
    """A model directory whose files have been checked, except the values of its weights.

    Attributes:
        model_dir: the model directory.
        config: the settings of the model, which has an encoder.
        source: vocabulary of the source.
        target: vocabulary of the target.
    """

    model_dir: pathlib.Path
    config: TransformerConfig
    source: Vocabulary
    target: Vocabulary


_OF_A_SIDE = {field.name for field in dataclasses.fields(SideConfig)}


def check_supported(
    config: TransformerConfig,
    format_name: str,
    supported: Mapping[str, Sequence[Any]],
    reasons: Mapping[tuple[str, Any], str] | None = None,
) -> None:
    """Checks that a format can hold a model.

    Args:
        config: settings of the model.
        format_name: name of the format, for the error message.
        supported: the possible values of settings; of a setting of `SideConfig`, of both sides.
        reasons: why the format lacks a value of a setting, and what to do, for the error message.

    Raises:
        InputError: it cannot; the message names the setting.
    """
    for name, values in supported.items():
        for setting, value in _values(config, name):
            if value not in values:
                reason = (reasons or {}).get((name, value))
                raise InputError(
                    f"the format {format_name} cannot hold a model with {setting}={value!r}, only "
                    f"{' or '.join(map(repr, values))}{f': {reason}' if reason else ''}"
                )


def check_equal_heads(config: TransformerConfig, format_name: str) -> None:
    """Checks that cross-attention has as many heads as the decoder's self-attention.

    Raises:
        InputError: it has not.
    """
    decoder = config.side("decoder")
    if decoder.cross_num_heads != decoder.num_heads:
        raise InputError(
            f"the format {format_name} cannot hold a model with decoder.cross_num_heads="
            f"{decoder.cross_num_heads}, only with decoder.num_heads={decoder.num_heads}"
        )


def _values(config: TransformerConfig, name: str) -> Iterator[tuple[str, Any]]:
    if name in _OF_A_SIDE:
        for side in SIDES:
            yield f"{side}.{name}", getattr(config.side(side), name)
    else:
        yield name, getattr(config, name)
