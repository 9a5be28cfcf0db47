"""Reading plain data from untrusted YAML 1.2."""

import re
from typing import Any, ClassVar

import yaml

from tf_transformer.errors import InputError
from tf_transformer.printable import printable

# Settings have four levels and a hundred values. An alias counts as many as the node it refers to.
_MAX_DEPTH = 20
_MAX_NODES = 10_000
_MAX_DIGITS = 40

_TAG = "tag:yaml.org,2002:"
# The core schema, https://yaml.org/spec/1.2.2/#103-core-schema, and two features of YAML 1.1: digit
# groups as in 10_000, and `<<`, which merges mappings. Unlike in YAML 1.1, `no` is a string
# (Norwegian), 1e-5 a number, and 2020-13-45 not a date.
_CORE_SCHEMA = {
    "null": (r"(~|null|Null|NULL|)$", ["~", "n", "N", ""]),
    "bool": (r"(true|True|TRUE|false|False|FALSE)$", list("tTfF")),
    "int": (r"([-+]?\d+(_\d+)*|0o[0-7]+|0x[0-9a-fA-F]+)$", list("-+0123456789")),
    "float": (
        r"([-+]?(\.\d+|\d+(_\d+)*(\.\d*)?)([eE][-+]?\d+)?|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN))$",
        list("-+.0123456789"),
    ),
    "merge": (r"<<$", ["<"]),
}


def read_yaml(text: str, where: object) -> Any:
    """Reads plain data from YAML.

    Args:
        text: one document.
        where: source of the text, for the error message.

    Raises:
        InputError: not YAML; a duplicate name, a tag, or data that is nested too deeply or has too
            many values.
    """
    try:
        return yaml.load(text, _Loader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        fault = printable(" ".join(filter(None, [error.context, error.problem])), 200)
        raise InputError(
            f"{where}: not YAML (line {mark.line + 1}, column {mark.column + 1}: {fault})"
        ) from error
    except yaml.YAMLError as error:
        raise InputError(f"{where}: not YAML ({printable(str(error), 200)})") from error


class _Loader(yaml.SafeLoader):
    """A safe loader that limits depth and size, and refuses tags and duplicate names.

    PyYAML recurses for each level; shares the nodes of aliases, so that a few lines can expand to
    billions of values when they are printed or copied; and keeps the last of two equal names.
    """

    yaml_implicit_resolvers: ClassVar[dict] = {}

    def __init__(self, stream):
        super().__init__(stream)
        self._depth = self._nodes = 0
        self._sizes: dict[int, int] = {}

    def compose_node(self, parent, index):
        event = self.peek_event()
        if getattr(event, "tag", None) is not None:
            self._refuse(event, f"expected no tags, got {event.tag}")
        if self._depth >= _MAX_DEPTH:
            self._refuse(event, f"nested deeper than {_MAX_DEPTH} levels")
        before = self._nodes
        self._depth += 1
        node = super().compose_node(parent, index)
        self._depth -= 1
        if isinstance(event, yaml.AliasEvent):
            if id(node) not in self._sizes:
                self._refuse(event, f"*{event.anchor} contains itself")
            self._nodes += self._sizes[id(node)]
        else:
            self._nodes += 1
            self._sizes[id(node)] = self._nodes - before
        if self._nodes > _MAX_NODES:
            self._refuse(event, f"more than {_MAX_NODES:,} values")
        return node

    def compose_mapping_node(self, anchor):
        node = super().compose_mapping_node(anchor)
        lines: dict[tuple[str, str], int] = {}
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode):
                continue  # the constructor refuses it
            name, line = (key.tag, key.value), key.start_mark.line + 1
            if name in lines:
                self._refuse(key, f"duplicate name {key.value!r}, first in line {lines[name]}")
            lines[name] = line
        return node

    def construct_yaml_int(self, node):
        digits = node.value
        if len(digits) > _MAX_DIGITS:
            self._refuse(node, f"a number of {len(digits):,} characters is too large")
        return int(digits, {"0o": 8, "0x": 16}.get(digits[:2], 10))

    def _refuse(self, part, fault):
        raise yaml.composer.ComposerError(None, None, fault, part.start_mark)


_Loader.add_constructor(f"{_TAG}int", _Loader.construct_yaml_int)
for _kind, (_pattern, _first_characters) in _CORE_SCHEMA.items():
    _Loader.add_implicit_resolver(_TAG + _kind, re.compile(_pattern), _first_characters)
