"""Settings from YAML files and the command line: read, checked, explained, written."""

import dataclasses
import difflib
import functools
import os
import pathlib
from typing import Any

import pydantic

from tf_transformer.config import TransformerConfig, nearest
from tf_transformer.errors import InputError
from tf_transformer.presets import PRESETS
from tf_transformer.printable import printable, shown
from tf_transformer.storage.regular_files import read_regular
from tf_transformer.text.language_tags import language_tag
from training.config import TrainingConfig
from training.plain_yaml import read_yaml

# A settings file is a thousandth of it.
_MAX_BYTES = 2**20
_ADAPTER = pydantic.TypeAdapter(TrainingConfig)


def read_settings(
    path: str | os.PathLike | None = None, *overrides: dict[str, Any]
) -> dict[str, Any]:
    """Reads the YAML file, if any, and replaces single values in it, for `make_config`.

    Args:
        path: a YAML file with the nesting of `TrainingConfig`.
        overrides: dotted names and their values, as in `{"optimization.steps": 4000}`; later ones
            replace earlier ones.

    Returns:
        What is given, and nothing else.

    Raises:
        ValueError: no regular file, too large, not YAML, or not nested so, or a value that is
            replaced is wrong by itself.
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
        text = read_regular(path, _MAX_BYTES).decode("utf-8")
    except FileNotFoundError as error:
        raise InputError(f"{path}: no such file") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: not YAML (not UTF-8: {error.reason})") from error
    values = read_yaml(text, path)
    if values is None:  # nothing but comments
        return {}
    if not isinstance(values, dict):
        raise InputError(f"{path}: expected `name: value` lines, got {shown(values)}")
    # Without sections of nothing but comments.
    return {name: value for name, value in values.items() if value is not None}


def parse_setting(setting: str) -> dict[str, Any]:
    """A dotted name and its value, as `--set` has them, for `read_settings`.

    Raises:
        ValueError: no name, or a value that is not YAML.
    """
    name, equals, value = setting.partition("=")
    if not equals:
        raise InputError(f"--set {printable(setting, 100)}: expected NAME=VALUE")
    return {name: read_yaml(value, f"--set {printable(setting, 100)}")}


def make_config(values: dict[str, Any]) -> TrainingConfig:
    """Checks plain values, nested as `TrainingConfig` is; what is missing takes its default.

    Raises:
        ValueError: an unknown name, or a value of the wrong type or range.
    """
    config = _validated(values)
    if config.validation.best_by == "bleu" and (
        config.is_language_model or config.validation.translate_every == 0
    ):
        raise InputError(
            "'validation.best_by: bleu' needs translations; set it to loss"
            + ("" if config.is_language_model else ", or 'validation.translate_every' above 0")
        )
    model = config.transformer_config(8, 8)  # its own checks, before anything is read or written
    if model.positions == "learned" and config.data.max_length > model.max_length:
        raise InputError(
            f"'data.max_length: {config.data.max_length}' is more than the model's learned "
            f"positions; set 'model.max_length' to as much, it is {model.max_length}"
        )
    if config.vocabulary.source_vectors and (
        model.decoder_only or model.tied_embeddings in ("inputs", "all")
    ):
        raise InputError(
            "'vocabulary.source_vectors': this model has one matrix for both sides, or no source; "
            "set 'vocabulary.target_vectors'"
        )
    if model.decoder_only and config.data.word_dropout:
        raise InputError("'data.word_dropout' is of the source; a language model has none")
    if config.vocabulary.kind == "char" and config.data.subword_dropout:
        raise InputError("'data.subword_dropout': a vocabulary of characters has nothing to cut")
    if model.decoder_only and config.vocabulary.languages:
        raise InputError(
            "'vocabulary.languages': tags are of the source; a language model has none"
        )
    languages = config.vocabulary.languages
    if len(set(languages)) < len(languages):
        raise InputError(
            f"'vocabulary.languages': each is named once. Received: {shown(languages)}"
        )
    for language in languages:
        try:
            language_tag(language)
        except ValueError as error:
            raise InputError(f"'vocabulary.languages': {error}") from error
    needed = ["target_vectors"]
    if not model.decoder_only and model.tied_embeddings not in ("inputs", "all"):
        needed.append("source_vectors")
    for name in needed:
        if not model.trainable_embeddings and getattr(config.vocabulary, name) is None:
            raise InputError(
                f"'model.trainable_embeddings: false' would keep random embeddings; give them "
                f"vectors with 'vocabulary.{name}'"
            )
    return config


def _validated(values):
    """Each value checked by itself; those of the model in `TrainingConfig.transformer_config`."""
    try:
        return _ADAPTER.validate_python(values)
    except pydantic.ValidationError as error:
        raise InputError(_explain(error)) from error


def dump_config(config: TrainingConfig) -> dict[str, Any]:
    """The settings as plain values, for `make_config` to read again."""
    return dataclasses.asdict(config)


def flatten(values: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested settings by their dotted names."""
    flat: dict[str, Any] = {}
    for name, value in values.items():
        if isinstance(value, dict):
            flat |= flatten(value, f"{prefix}{name}.")
        else:
            flat[prefix + name] = value
    return flat


def _replace(values: dict[str, Any], names: list[str], value: Any) -> None:
    """Replaces one value, and does not let it hide a wrong one."""
    *sections, last = names
    for name in sections:
        values = values.setdefault(name, {})
        if values is None:  # nothing but comments
            values = {}
        if not isinstance(values, dict):
            raise InputError(f"'{name}' is a single value and has no '{last}'")
    if last in values:
        _validated(functools.reduce(lambda inner, name: {name: inner}, names[::-1], values[last]))
    values[last] = value


def _explain(error: pydantic.ValidationError) -> str:
    """One line on the first fault, with the nearest valid name where a name is unknown."""
    fault = error.errors()[0]
    name = printable(".".join(str(part) for part in fault["loc"]), 100)
    if fault["type"] in ("unexpected_keyword_argument", "extra_forbidden"):
        hint = _nested(name) if len(fault["loc"]) == 1 else _nearest_setting(name)
        return f"unknown setting '{name}'{hint}"
    message = fault["msg"][0].lower() + fault["msg"][1:]
    value = shown(fault["input"])
    suggestion = nearest(value.strip("'"), PRESETS) if name == "preset" else ""
    return f"setting '{name}': {message}. Received: {value}{suggestion}"


def _nested(name: str) -> str:
    """A suggestion for a key at the top; a dotted name that is right otherwise is to be nested."""
    section, _, leaf = name.partition(".")
    if leaf and name in _known_names():
        return f"; settings are nested: did you mean {{'{section}': {{'{leaf}': ...}}}}?"
    return _nearest_setting(name)


def _nearest_setting(name: str) -> str:
    """A suggestion: the same name in another section first, then names that look alike."""
    leaf = name.rpartition(".")[2]
    known = _known_names()
    elsewhere = [full for full in known if full.rpartition(".")[2] == leaf]
    if elsewhere:
        return f"; did you mean '{elsewhere[0]}'?"
    leaves = {full.rpartition(".")[2]: full for full in known}
    close = difflib.get_close_matches(leaf, leaves, n=1)
    return nearest(name, known) or (close and f"; did you mean '{leaves[close[0]]}'?") or ""


def _known_names() -> list[str]:
    names = []
    for field in dataclasses.fields(TrainingConfig):
        if dataclasses.is_dataclass(field.type):
            names += [f"{field.name}.{inner.name}" for inner in dataclasses.fields(field.type)]
        names.append(field.name)
    return names + [f"model.{field.name}" for field in dataclasses.fields(TransformerConfig)]
