"""Writes the pages of the docs that the code determines: docs/tasks.md and docs/settings.md.

    python docs/make_reference.py

`tests/test_docs.py` compares the pages with what this program would write.
"""

import dataclasses
import inspect
import json
import pathlib
import re
import types
import typing
from collections.abc import Iterable, Iterator
from typing import Any

from tf_transformer.config import SideConfig, TransformerConfig
from tf_transformer.decoding.search_options import (
    CONTINUATION_OPTIONS,
    EPSILON_OPTIONS,
    SAMPLING_OPTIONS,
    SEARCH_OPTIONS,
    RowOption,
)
from tf_transformer.tasks.table import TASKS
from tf_transformer.tasks.task import Task
from training.config import (
    DataConfig,
    LoraConfig,
    NoiseConfig,
    OptimizationConfig,
    Phase,
    TrainingConfig,
    ValidationConfig,
    VocabularyConfig,
)

DOCS = pathlib.Path(__file__).parent
_EDITED = "This page is written by [make_reference.py](make_reference.py) from"

# The options of tasks, by the heading of their table.
OPTIONS: dict[str, tuple[RowOption, ...]] = {
    "Search options": SEARCH_OPTIONS,
    "Sampling options": SAMPLING_OPTIONS,
    "Options of sampling above a probability": EPSILON_OPTIONS,
    "Options of a continuation": CONTINUATION_OPTIONS,
}
# The sections of a settings file, and the class of each.
SETTINGS = {
    "model": TransformerConfig,
    "model.encoder, model.decoder": SideConfig,
    "vocabulary": VocabularyConfig,
    "data": DataConfig,
    "data.noise": NoiseConfig,
    "data.curriculum": Phase,
    "optimization": OptimizationConfig,
    "validation": ValidationConfig,
    "lora": LoraConfig,
}
# The vocabulary determines them.
_DERIVED = ("source_vocab_size", "target_vocab_size")


def main() -> None:
    """Writes the pages."""
    for name, lines in pages().items():
        (DOCS / name).write_text(lines, encoding="utf-8")


def pages() -> dict[str, str]:
    """Returns the text of each page by the name of its file."""
    written = {"tasks.md": task_page(), "settings.md": settings_page()}
    return {name: "\n".join(lines) + "\n" for name, lines in written.items()}


# ---- Tasks ----


def task_page() -> Iterator[str]:
    """Yields the lines of the page of tasks."""
    yield from [
        "# Tasks and signatures",
        "",
        f"{_EDITED} the [table of tasks](../tf_transformer/tasks/table.py).",
        "",
        "What a trained model can be asked, be it a model directory, an exported model or on a",
        "server. A task has one signature or two, of which the second has options, too. Every",
        "input and output has one value per row, unless its axes stand beside its type.",
        "[Serving](serving.md#signatures) says how values are treated.",
        "",
        *_row("task", "what it answers", "signatures", "exported by"),
        *_row("---", "---", "---", "---"),
    ]
    for task in TASKS.values():
        name = f"[`{task.name}`](#{task.name})"
        yield from _row(name, task.description, _names(task.signatures), exported_by(task))
    for task in TASKS.values():
        yield from ["", f"## {task.name}", ""]
        yield from [f"{_sentence(task.description)} {_exported(task)}", ""]
        yield from [*signature_lines(task), ""]
        yield from [*_row("", "name", "type", ""), *_row("---", "---", "---", "---")]
        for given in task.inputs:
            kind = given.dtype + (" `[batch, limit]`" if given.has_source_width else "")
            yield from _row("input", f"`{given.name}`", kind, given.description)
        for flag in task.flags:
            where = f"input of `{task.with_options}`"
            yield from _row(where, f"`{flag.name}`", flag.dtype, flag.description)
        for output in task.outputs:
            kind = output.dtype + (" `[batch, n]`" if output.rank == 2 else "")
            yield from _row("output", f"`{output.name}`", kind, output.description)
    for heading, options in OPTIONS.items():
        yield from ["", f"## {heading}", ""]
        yield from [*_row("input", "type", "meaning", "default"), *_row("---", "---", "---", "---")]
        for option in options:
            name, default = f"`{option.name}`", option.documented_default
            yield from _row(name, option.dtype, option.description, default)


def exported_by(task: Task) -> str:
    """Returns how a task gets into an exported model."""
    option, comma, rest = task.exported_by.partition(",")
    if not task.needed_option and not task.is_optional:
        return "`export`"
    if option.startswith("--"):
        return f"`export {option}`{comma}{rest}"
    return re.sub(r"--[\w-]+", r"`\g<0>`", f"`export` of {option}")


def _exported(task: Task) -> str:
    if not task.needed_option and not task.is_optional:
        return "Every export of a translator has it, unless `--signatures` names others."
    return f"Exported by {exported_by(task)}."


def signature_lines(task: Task) -> Iterator[str]:
    """Yields a line for each signature of a task, with its inputs."""
    own = _names(given.name for given in task.inputs)
    more = _names(flag.name for flag in task.flags)
    links = [_link(heading) for heading, options in OPTIONS.items() if options == task.options]
    for name in task.signatures:
        parts = [own, more, *links] if name == task.with_options else [own]
        yield f"- `{name}` takes {', '.join(filter(None, parts))}."


def _link(heading: str) -> str:
    return f"the [{heading[0].lower()}{heading[1:]}](#{heading.lower().replace(' ', '-')})"


def _row(*cells: str) -> list[str]:
    return ["| " + " | ".join(cells) + " |"]


def _names(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def _sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}."


# ---- Settings ----


def settings_page() -> Iterator[str]:
    """Yields the lines of the page of settings."""
    yield from [
        "# Settings",
        "",
        f"{_EDITED} [training/config.py](../training/config.py) and",
        "[tf_transformer/config.py](../tf_transformer/config.py).",
        "",
        "`train --config F` reads them from a YAML file, in which each heading is a section, and",
        "`--set data.max_length=64 ...` overrides single ones",
        "([commands](commands.md#where-settings-come-from)). What is not given has the value of",
        "the preset, or else the default. `null` is what the descriptions call None.",
        "",
        "## preset",
        "",
        *_settings(TrainingConfig, ("preset",)),
    ]
    for section, config in SETTINGS.items():
        names = [field.name for field in dataclasses.fields(config) if field.name not in _DERIVED]
        yield from ["", f"## {section}", "", str(inspect.getdoc(config)).splitlines()[0], ""]
        yield from _settings(config, names)


def _settings(config: Any, names: Iterable[str]) -> Iterator[str]:
    """Yields the table of some fields of a class."""
    described = arguments_of(config)
    hints = typing.get_type_hints(config, include_extras=True)
    fields = {field.name: field for field in dataclasses.fields(config)}
    yield from [*_row("setting", "values", "default", ""), *_row("---", "---", "---", "---")]
    for name in names:
        default = _default(fields[name])
        yield from _row(f"`{name}`", values_of(hints[name]), default, described[name])


def arguments_of(config: type) -> dict[str, str]:
    """Returns the description of each argument in the docstring of a class, in one line each."""
    section = str(inspect.getdoc(config)).partition("\nArgs:\n")[2].partition("\n\n")[0]
    found = {}
    for match in re.finditer(r"^    (\w[\w, ]*): (.*(?:\n        .*)*)", section, re.MULTILINE):
        for name in match[1].split(", "):
            found[name] = " ".join(match[2].split()).removesuffix(".")
    return found


def _default(field: dataclasses.Field) -> str:
    if field.default is not dataclasses.MISSING:
        value = field.default
    elif field.default_factory is not dataclasses.MISSING:
        value = field.default_factory()
    else:
        return "must be given"
    if dataclasses.is_dataclass(value):
        return "those of the section"
    return f"`{value if isinstance(value, str) else json.dumps(value)}`"  # JSON is YAML


def values_of(kind: Any) -> str:
    """Returns the values of a type in words: its kind and range, or its choices."""
    if typing.get_origin(kind) in (typing.Union, types.UnionType):
        return " or ".join(
            "`null`" if part is type(None) else values_of(part) for part in typing.get_args(kind)
        )
    if typing.get_origin(kind) is typing.Literal:
        return ", ".join(f"`{choice}`" for choice in typing.get_args(kind))
    if typing.get_origin(kind) is typing.Annotated:
        base, *metadata = typing.get_args(kind)
        bounds = [bound for field in metadata for bound in getattr(field, "metadata", ())]
        return " ".join([values_of(base), *filter(None, map(_bound, bounds))])
    if typing.get_origin(kind) is list:
        return f"list of {values_of(typing.get_args(kind)[0])}"
    return _KINDS.get(kind, "section")


_KINDS = {int: "integer", float: "number", str: "text", bool: "`true`, `false`"}
_BOUNDS = {"gt": "above", "ge": "from", "lt": "below", "le": "up to"}


def _bound(bound: Any) -> str:
    """Returns a bound such as `annotated_types.Gt` in words, and nothing for other metadata."""
    name = type(bound).__name__.lower()
    if name not in _BOUNDS:
        return ""
    value = getattr(bound, name)
    return f"{_BOUNDS[name]} {value:,}" if isinstance(value, int) else f"{_BOUNDS[name]} {value:g}"


if __name__ == "__main__":
    main()
