"""What a checkpoint of OpenNMT-tf does not contain: settings of the program that made it."""

import pathlib
import re
from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

import pydantic

from tf_transformer.config_checks import DropoutRate, Epsilon, NumHeads, Switch, validate
from tf_transformer.errors import InputError
from tf_transformer.formats.checkpoints.opennmt_tf_weights import Architecture
from tf_transformer.known_names import nearest
from tf_transformer.printable import shown
from tf_transformer.storage.regular_files import read_regular

_DESCRIPTION_NAME = "model_description.py"
_MAX_BYTES = 2**20
# What OpenNMT-tf writes for a model of its catalog, since version 2.6 and before.
_DESCRIPTIONS = (
    r"from opennmt import models\s+"
    r'model = lambda: models\.get_model_from_catalog\("(\w+)"\)\s*',
    r"from opennmt\.models import catalog\s+model = catalog\.(\w+)\s*",
)
_GUESSED = (
    "OpenNMT-tf's catalog has models of this size with {} heads. If yours has another number, "
    "translations are wrong: import it with --set num_heads=NUMBER."
)


class CatalogModel(NamedTuple):
    """A model of OpenNMT-tf's `models/catalog.py`.

    Attributes:
        d_model: width.
        d_ff: inner width of the feed-forward layers.
        num_heads: number of heads.
        settings: what differs from OpenNMT-tf's defaults.
    """

    d_model: int
    d_ff: int
    num_heads: int
    settings: Mapping[str, Any] = {}


_BASE, _BIG = CatalogModel(512, 2048, 8), CatalogModel(1024, 4096, 16)
# `--auto_config` marks the end of the sources of these.
_SCALING = dict(source_end=True, dropout_rate=0.3, feed_forward_dropout_rate=0.0)
_CATALOG = {
    "TransformerTiny": CatalogModel(64, 64, 2),
    "TransformerBase": _BASE,
    "TransformerBig": _BIG,
    "Transformer": _BASE,
    "TransformerBaseRelative": _BASE,
    "TransformerRelative": _BASE,
    "TransformerBigRelative": _BIG,
    "TransformerBaseSharedEmbeddings": _BASE,
    "TransformerBigSharedEmbeddings": _BIG,
    "ScalingNmtEnDe": _BIG._replace(settings=_SCALING | {"attention_dropout_rate": 0.1}),
    "ScalingNmtEnFr": _BIG._replace(
        settings=_SCALING | {"dropout_rate": 0.1, "attention_dropout_rate": 0.0}
    ),
}


class OpenNMTTFSettings(pydantic.BaseModel):
    """Settings that a user can give, with OpenNMT-tf's defaults; None if they depend on others."""

    model_config = pydantic.ConfigDict(strict=True, extra="forbid")

    num_heads: NumHeads = 8
    activation: Literal["relu", "gelu", "swish"] = "relu"
    positions: Literal["concatenated", "none"] | None = None
    layer_norm_epsilon: Epsilon = 1e-3  # that of Keras, in OpenNMT-tf since version 2.6
    source_end: Switch = False
    dropout_rate: DropoutRate = 0.1
    attention_dropout_rate: DropoutRate | None = None
    feed_forward_dropout_rate: DropoutRate | None = None


def check_settings(given: Mapping[str, Any], where: object) -> OpenNMTTFSettings:
    """Returns settings with defaults for those that are missing.

    Args:
        given: names and values.
        where: what gave them, for error messages.

    Raises:
        InputError: a name is unknown, or a value is wrong.
    """
    known = OpenNMTTFSettings.model_fields
    for name in given:
        if name not in known:
            raise InputError(
                f"{where}: unknown setting {shown(name)}, expected one of {', '.join(known)}"
                + nearest(str(name), known)
            )
    return validate(OpenNMTTFSettings, given, where)


def complete_settings(
    given: Mapping[str, Any],
    architecture: Architecture,
    index: pathlib.Path,
    run: Mapping[str, Any],
) -> tuple[OpenNMTTFSettings, list[str]]:
    """Returns the settings of a model, and what the user must know about them.

    Those that are not given are the run's, those of the model in the catalog that the run's
    description names, or defaults. Without a description, the number of heads is that of the
    catalog's models of the same size.

    Args:
        given: the settings that the user gives.
        architecture: what the checkpoint contains.
        index: the index of the checkpoint.
        run: the run's configuration.

    Raises:
        InputError: the number of heads is not known, or the sources contradict each other.
    """
    model = _read_description(index.with_name(_DESCRIPTION_NAME), architecture)
    values = {**(model.settings if model else {}), **_read_run(run, index.parent), **given}
    known = architecture.num_heads or (model.num_heads if model else None)
    notes = []
    if "num_heads" not in values:
        values["num_heads"] = known or _guess_heads(architecture, index)
        if known is None:
            notes.append(_GUESSED.format(values["num_heads"]))
    elif architecture.num_heads not in (None, values["num_heads"]):
        raise InputError(
            f"{index}: relative positions need num_heads={architecture.num_heads}, got "
            f"{shown(values['num_heads'])}"
        )
    return check_settings(values, index), notes


def _read_run(run: Mapping[str, Any], folder: pathlib.Path) -> dict[str, Any]:
    """Returns the settings in a run's configuration."""
    found: dict[str, Any] = {}
    data, params = run.get("data"), run.get("params")
    sides = ("source_sequence_controls", "target_sequence_controls")
    source, target = (data.get(side) if isinstance(data, dict) else None for side in sides)
    if isinstance(source, dict):
        _check_controls(sides[0], source, {"start": False}, folder)
        found["source_end"] = bool(source.get("end"))
    if isinstance(target, dict):
        _check_controls(sides[1], target, {"start": True, "end": True}, folder)
    if isinstance(params, dict) and isinstance(params.get("dropout"), int | float):
        rate = float(params["dropout"])
        found |= {f"{part}dropout_rate": rate for part in ("", "attention_", "feed_forward_")}
    return found


def _check_controls(
    name: str, controls: Mapping[str, Any], supported: Mapping[str, bool], folder: pathlib.Path
) -> None:
    for control, expected in supported.items():
        if bool(controls.get(control)) != expected:
            raise InputError(
                f"{folder}: {name}: {control}={shown(controls.get(control))} is not supported"
            )


def _read_description(path: pathlib.Path, architecture: Architecture) -> CatalogModel | None:
    """Returns the model of the catalog that a description names. It is Python, and not executed.

    Args:
        path: the description; it need not exist.
        architecture: what the checkpoint contains.

    Returns:
        The model, or None if the description is the user's own or does not exist.

    Raises:
        InputError: it names a model of another kind or size.
    """
    if not path.exists():
        return None
    text = read_regular(path, _MAX_BYTES).decode("utf-8-sig", "replace").replace("\r", "")
    matches = [re.fullmatch(description, text) for description in _DESCRIPTIONS]
    names = [match[1] for match in matches if match]
    if not names:
        return None
    if names[0] not in _CATALOG:
        raise InputError(
            f"{path}: {names[0]} is not supported, only the Transformers {', '.join(_CATALOG)}"
        )
    found = _CATALOG[names[0]]
    widths = architecture.d_model, architecture.d_ff
    if (found.d_model, found.d_ff) != widths:
        raise InputError(
            f"{path}: {names[0]} has the widths {found.d_model} and {found.d_ff}, but the "
            f"checkpoint has {widths[0]} and {widths[1]}"
        )
    return found


def _guess_heads(architecture: Architecture, index: pathlib.Path) -> int:
    """Returns the number of heads of the catalog's models of the same size.

    Raises:
        InputError: there is none, or the run has a description of its own.
    """
    reason = f"{index}: a checkpoint does not contain the number of heads"
    if index.with_name(_DESCRIPTION_NAME).exists():
        raise InputError(
            f"{reason}, and {_DESCRIPTION_NAME} is not executed; give the number in it: --set "
            "num_heads=NUMBER"
        )
    widths = architecture.d_model, architecture.d_ff
    for found in _CATALOG.values():
        if (found.d_model, found.d_ff) == widths:
            return found.num_heads
    raise InputError(
        f"{reason}, and OpenNMT-tf's catalog has no model of the widths {widths[0]} and "
        f"{widths[1]}; give it: --set num_heads=NUMBER"
    )
