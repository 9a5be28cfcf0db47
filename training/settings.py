"""Reading and checking settings from YAML files and the command line."""

import dataclasses
import difflib
import functools
import os
import pathlib
import re
from typing import Any

import pydantic

from tf_transformer.config import SideConfig, TransformerConfig
from tf_transformer.config_checks import check_field
from tf_transformer.errors import InputError
from tf_transformer.known_names import nearest
from tf_transformer.presets import PRESETS
from tf_transformer.printable import printable, shown
from tf_transformer.storage.plain_yaml import read_yaml
from tf_transformer.storage.regular_files import read_regular
from tf_transformer.text.language_tags import is_tag, language_tag
from tf_transformer.text.reading import decode_text
from training.config import TrainingConfig
from training.trained_weights import check_trained

# A thousand times the size of a usual settings file.
_MAX_BYTES = 2**20
_SYMBOL = re.compile(r"<[^<>\s]+>")
_ADAPTER = pydantic.TypeAdapter(TrainingConfig)


def read_settings(
    path: str | os.PathLike | None = None, *overrides: dict[str, Any]
) -> dict[str, Any]:
    """Reads the YAML file, if any, and applies overrides to it.

    Args:
        path: a YAML file with the nesting of `TrainingConfig`.
        *overrides: dotted names and their values, as in `{"optimization.steps": 4000}`; later ones
            win.

    Returns:
        The given settings without any defaults, for `make_config`.

    Raises:
        InputError: the file is missing, not regular, too large or not YAML, its nesting is wrong,
            or an overridden value is invalid.
    """
    values: dict[str, Any] = {}
    if path is not None:
        values = _read_file(pathlib.Path(path))
    for name, value in (pair for given in overrides for pair in given.items()):
        _replace(values, name.split("."), value)
    for field in dataclasses.fields(TrainingConfig):
        section = values.get(field.name, {})
        if field.name != "preset" and not isinstance(section, dict):
            raise InputError(
                f"setting '{field.name}': expected names and values. Received: {shown(section)}"
            )
    return values


def _read_file(path):
    try:
        text = decode_text(read_regular(path, _MAX_BYTES), path)
    except FileNotFoundError as error:
        raise InputError(f"{path}: no such file") from error
    values = read_yaml(text, path)
    if values is None:  # the file holds only comments
        return {}
    if not isinstance(values, dict):
        raise InputError(f"{path}: expected `name: value` lines, got {shown(values)}")
    # A section that holds only comments is read as None.
    return {name: value for name, value in values.items() if value is not None}


def parse_setting(setting: str) -> dict[str, Any]:
    """Parses the NAME=VALUE of a `--set` option into an override for `read_settings`.

    Raises:
        InputError: there is no `=`, or the value is not YAML.
    """
    name, equals, value = setting.partition("=")
    if not equals:
        raise InputError(f"--set {printable(setting, 100)}: expected NAME=VALUE")
    return {name: read_yaml(value, f"--set {printable(setting, 100)}")}


def make_config(values: dict[str, Any]) -> TrainingConfig:
    """Makes a checked `TrainingConfig` from nested plain values; missing ones take their defaults.

    Raises:
        InputError: an unknown name, a value of the wrong type or range, or settings that contradict
            each other.
    """
    config = _validated(values)
    if config.validation.best_by == "bleu" and (
        config.is_language_model or config.validation.translate_every == 0
    ):
        raise InputError(
            "'validation.best_by: bleu' needs translations; set it to loss"
            + ("" if config.is_language_model else ", or 'validation.translate_every' above 0")
        )
    model = config.transformer_config(8, 8)  # checks the model's settings before anything is read
    check_trained(config, model)
    if model.positions == "learned" and config.data.max_length > model.max_length:
        raise InputError(
            f"'data.max_length: {config.data.max_length}' exceeds the number of learned positions, "
            f"'model.max_length: {model.max_length}'; lower the former or raise the latter"
        )
    if config.vocabulary.source_vectors and (
        model.decoder_only or model.tied_embeddings in ("inputs", "all")
    ):
        raise InputError(
            "'vocabulary.source_vectors': this model has one matrix for both sides, or no source; "
            "set 'vocabulary.target_vectors' instead"
        )
    if model.decoder_only and config.data.word_dropout:
        raise InputError(
            "'data.word_dropout' applies to the source, which a language model does not have; "
            "leave it out"
        )
    noise = config.data.noise
    if model.decoder_only and noise.is_on:
        raise InputError(
            "'data.noise' changes pairs of sentences, which a language model does not have; "
            "leave it out"
        )
    if noise.upper + noise.title > 1:
        raise InputError(
            "'data.noise.upper' and 'data.noise.title' must be together at most 1, since no pair "
            f"gets both. Received: {noise.upper} and {noise.title}"
        )
    if config.vocabulary.kind == "char" and config.data.subword_dropout:
        raise InputError(
            "'data.subword_dropout': the pieces of 'vocabulary.kind: char' cannot be split; "
            "set it to 0"
        )
    if model.num_target_tags and not config.vocabulary.joint:
        raise InputError(
            f"'model.language_tags: {model.language_tags}' needs tags that both sides share; set "
            "'vocabulary.joint: true'"
        )
    if model.decoder_only and config.vocabulary.languages:
        raise InputError(
            "'vocabulary.languages' are tags of the source, which a language model does not have; "
            "leave them out"
        )
    languages = config.vocabulary.languages
    if len(set(languages)) < len(languages):
        raise InputError(
            f"'vocabulary.languages': expected each language once. Received: {shown(languages)}"
        )
    for language in languages:
        try:
            language_tag(language)
        except ValueError as error:
            raise InputError(f"'vocabulary.languages': {error}") from error
    _check_phases(config.data.curriculum)
    _check_symbols(config.vocabulary.symbols)
    needed = ["target_vectors"]
    if not model.decoder_only and model.tied_embeddings not in ("inputs", "all"):
        needed.append("source_vectors")
    for name in needed:
        if not model.trainable_embeddings and getattr(config.vocabulary, name) is None:
            raise InputError(
                f"'model.trainable_embeddings: false' would freeze random embeddings; give word "
                f"vectors with 'vocabulary.{name}'"
            )
    return config


def _check_phases(phases):
    steps = [phase.from_step for phase in phases]
    if steps and (steps[0] != 0 or steps != sorted(set(steps))):
        raise InputError(
            "'data.curriculum': expected phases in the order of their 'from_step', the first from "
            f"0. Received: {steps}"
        )
    for phase in phases:
        if not any(phase.weights):
            raise InputError(
                "'data.curriculum': expected a weight above 0 in each phase. Received: "
                f"{phase.weights}"
            )


def _check_symbols(symbols):
    for symbol in symbols:
        if not _SYMBOL.fullmatch(symbol) or is_tag(symbol):
            raise InputError(
                "'vocabulary.symbols': expected names in angle brackets that are not tags of "
                f"languages, such as <bt>. Received: {shown(symbol)}"
            )
    if len(set(symbols)) < len(symbols):
        raise InputError(
            f"'vocabulary.symbols': expected each symbol once. Received: {shown(symbols)}"
        )


def _validated(values):
    """Checks all values except `model`, which `TrainingConfig.transformer_config` checks."""
    try:
        return _ADAPTER.validate_python(values)
    except pydantic.ValidationError as error:
        raise InputError(_explain(error)) from error


def config_to_dict(config: TrainingConfig) -> dict[str, Any]:
    """Returns the settings as nested plain values, the inverse of `make_config`."""
    return dataclasses.asdict(config)


def flatten(values: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """Returns nested settings under their dotted names, each beginning with `prefix`."""
    flat: dict[str, Any] = {}
    for name, value in values.items():
        if isinstance(value, dict):
            flat |= flatten(value, f"{prefix}{name}.")
        else:
            flat[prefix + name] = value
    return flat


def _replace(values: dict[str, Any], names: list[str], value: Any) -> None:
    """Replaces one value in place, after checking the old one: an override cannot hide an error."""
    *sections, last = names
    for name in sections:
        if values.get(name) is None:  # missing, or a section that holds only comments
            values[name] = {}
        values = values[name]
        if not isinstance(values, dict):
            raise InputError(f"'{name}' is a single value and has no setting '{last}'")
    if last in values:
        check_setting(".".join(names), values[last])
    values[last] = value


def check_setting(name: str, value: Any) -> None:
    """Checks a single setting, whatever the others are.

    Args:
        name: dotted name of the setting.
        value: its value.

    Raises:
        InputError: there is no such setting, or its value has another type or is out of range.
    """
    *sections, last = name.split(".")
    _validated(functools.reduce(lambda inner, name: {name: inner}, [last, *sections[::-1]], value))
    if sections[:1] == ["model"]:
        config_class = TransformerConfig if len(sections) == 1 else SideConfig
        if last not in {field.name for field in dataclasses.fields(config_class)}:
            raise InputError(f"unknown setting '{printable(name, 100)}'{_suggest_setting(name)}")
        check_field(config_class, last, value, ".".join(sections) + ".")


def _explain(error: pydantic.ValidationError) -> str:
    """Returns one line about the first error, with a suggestion where a name is unknown."""
    fault = error.errors()[0]
    name = printable(".".join(str(part) for part in fault["loc"]), 100)
    if fault["type"] in ("unexpected_keyword_argument", "extra_forbidden"):
        hint = _suggest_nesting(name) if len(fault["loc"]) == 1 else _suggest_setting(name)
        return f"unknown setting '{name}'{hint}"
    message = fault["msg"][0].lower() + fault["msg"][1:]
    value = shown(fault["input"])
    suggestion = nearest(value.strip("'"), PRESETS) if name == "preset" else ""
    return f"setting '{name}': {message}. Received: {value}{suggestion}"


def _suggest_nesting(name: str) -> str:
    """Suggests a setting for an unknown top-level name, such as a dotted one instead of nesting."""
    section, _, leaf = name.partition(".")
    if leaf and name in _known_names():
        return f"; settings are nested: did you mean {{'{section}': {{'{leaf}': ...}}}}?"
    return _suggest_setting(name)


def _suggest_setting(name: str) -> str:
    """Suggests the same name in another section, or else a similar name."""
    leaf = name.rpartition(".")[2]
    known = _known_names()
    elsewhere = [full for full in known if full.rpartition(".")[2] == leaf]
    if elsewhere:
        return f"; did you mean '{elsewhere[0]}'?"
    leaves = {full.rpartition(".")[2]: full for full in known}
    close = difflib.get_close_matches(leaf, leaves, n=1)
    return nearest(name, known) or (close and f"; did you mean '{leaves[close[0]]}'?") or ""


def _known_names() -> list[str]:
    names = _names_of(TrainingConfig)
    return names + [f"model.{field.name}" for field in dataclasses.fields(TransformerConfig)]


def _names_of(config_class: type, prefix: str = "") -> list[str]:
    names = []
    for field in dataclasses.fields(config_class):
        if isinstance(field.type, type) and dataclasses.is_dataclass(field.type):
            names += _names_of(field.type, f"{prefix}{field.name}.")
        names.append(prefix + field.name)
    return names
