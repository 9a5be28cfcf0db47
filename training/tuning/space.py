"""The search space of `tune`: which settings and search options to try, and their values."""

import dataclasses
import itertools
import math
import pathlib
from collections.abc import Iterator, Mapping
from typing import Any

from tf_transformer.decoding.search_options import LARGEST_LENGTH_PENALTY, MAX_BEAM_SIZE
from tf_transformer.errors import InputError
from tf_transformer.printable import shown
from tf_transformer.storage.plain_yaml import read_yaml
from tf_transformer.storage.regular_files import read_regular
from tf_transformer.text.reading import decode_text
from training.settings import check_setting

Value = bool | int | float | str | None

_MAX_BYTES = 2**20
_MAX_CHOICES = 1000
_MAX_GRID = 10_000
_SEARCH_OPTIONS = {
    "beam_size": (int, 1, MAX_BEAM_SIZE),
    "length_penalty": (float, 0, LARGEST_LENGTH_PENALTY),
}


@dataclasses.dataclass(frozen=True)
class Domain:
    """The values of one setting: a list, or a range.

    Args:
        choices: the values of a list; empty for a range.
        low: the smallest value of a range.
        high: the largest value of a range.
        step: the distance of the values of a range; None allows all of them.
        log: whether the logarithm of the value is drawn uniformly.
    """

    choices: tuple[Value, ...] = ()
    low: float = 0
    high: float = 0
    step: float | None = None
    log: bool = False

    @property
    def is_integer(self) -> bool:
        """Whether a range is one of integers."""
        return isinstance(self.low, int) and isinstance(self.high, int)

    def bounds(self) -> tuple[Value, ...]:
        """Returns the values of a list, or the smallest and the largest one of a range."""
        return self.choices or (self.low, self.high)

    def grid(self, name: str) -> tuple[Value, ...]:
        """Returns all values.

        Args:
            name: name of the setting, for the error message.

        Raises:
            InputError: a range without a step, or with too many values.
        """
        if self.choices:
            return self.choices
        step = 1 if self.step is None and self.is_integer and not self.log else self.step
        if step is None:
            raise InputError(f"{name}: a grid needs a list of values, or a range with a step")
        count = math.floor((self.high - self.low) / step + 1e-9) + 1
        if count > _MAX_CHOICES:
            raise InputError(f"{name}: expected at most {_MAX_CHOICES:,} values, got {count:,}")
        values = [self.low + index * step for index in range(count)]
        return tuple(values if self.is_integer else [round(float(x), 12) for x in values])

    def as_plain(self) -> Any:
        """Returns the domain as JSON values."""
        return list(self.choices) or {
            name: value for name, value in dataclasses.asdict(self).items() if name != "choices"
        }


@dataclasses.dataclass(frozen=True)
class SearchSpace:
    """What to try.

    Args:
        settings: training settings by their dotted names.
        search: search options, of `beam_size` and `length_penalty`.
    """

    settings: dict[str, Domain]
    search: dict[str, Domain]

    def as_plain(self) -> dict[str, Any]:
        """Returns the space as JSON values."""
        return {
            section: {name: domain.as_plain() for name, domain in domains.items()}
            for section, domains in (("settings", self.settings), ("search", self.search))
        }


def grid(domains: Mapping[str, Domain]) -> Iterator[dict[str, Value]]:
    """Yields all combinations of values; the last name varies fastest.

    Raises:
        InputError: a domain has no grid, or there are too many combinations.
    """
    values = {name: domain.grid(name) for name, domain in domains.items()}
    count = math.prod(map(len, values.values()))
    if count > _MAX_GRID:
        raise InputError(f"expected a grid of at most {_MAX_GRID:,} combinations, got {count:,}")
    for combination in itertools.product(*values.values()):
        yield dict(zip(values, combination, strict=True))


def read_space(path: pathlib.Path) -> SearchSpace:
    """Reads a search space from a YAML file.

    Raises:
        InputError: the file is missing, not regular, too large or not YAML, or its content is not a
            search space; the message names the setting.
    """
    try:
        content = read_yaml(decode_text(read_regular(path, _MAX_BYTES), path), path)
    except FileNotFoundError as error:
        raise InputError(f"{path}: no such file") from error
    sections = ("settings", "search")
    if not isinstance(content, dict) or not content or not content.keys() <= set(sections):
        raise InputError(
            f"{path}: expected the sections settings and search, or one of them. Received: "
            f"{shown(list(content) if isinstance(content, dict) else content)}"
        )
    parsed = {}
    for section in sections:
        given = content.get(section) or {}
        if not isinstance(given, dict) or not all(isinstance(name, str) for name in given):
            raise InputError(f"{path}: {section}: expected names and values, got {shown(given)}")
        try:
            parsed[section] = {name: _parse(name, given[name]) for name in given}
            for name, domain in parsed[section].items():
                _check_values(section, name, domain)
        except InputError as error:
            raise InputError(f"{path}: {error}") from error
    return SearchSpace(**parsed)


def _parse(name: str, given: Any) -> Domain:
    if isinstance(given, list):
        if not 1 <= len(given) <= _MAX_CHOICES or not all(map(_is_scalar, given)):
            raise InputError(
                f"{name}: expected a list of 1 to {_MAX_CHOICES:,} single values. Received: "
                f"{shown(given)}"
            )
        if len({(type(value), value) for value in given}) < len(given):
            raise InputError(f"{name}: expected each value once, got {shown(given)}")
        return Domain(choices=tuple(given))
    if not isinstance(given, dict) or not {"from", "to"} <= given.keys() <= {
        *("from", "to", "step", "log"),
    }:
        raise InputError(
            f"{name}: expected a list of values, or {{from: A, to: B}}, with step: C or log: true "
            f"if you like. Received: {shown(given)}"
        )
    low, high, step = given["from"], given["to"], given.get("step")
    log = given.get("log", False)
    numbers = [low, high] if step is None else [low, high, step]
    if not all(map(_is_number, numbers)) or type(log) is not bool:
        raise InputError(f"{name}: expected numbers, and true or false for log, got {shown(given)}")
    if not low < high or (step is not None and not 0 < step <= high - low) or (log and low <= 0):
        raise InputError(
            f"{name}: expected from < to, a positive step, and from > 0 with log. Received: "
            f"{shown(given)}"
        )
    if log and step is not None:
        raise InputError(f"{name}: expected a step or log: true, not both")
    if not all(isinstance(number, int) for number in numbers):
        low, high, step = float(low), float(high), None if step is None else float(step)
    return Domain(low=low, high=high, step=step, log=log)


def _check_values(section: str, name: str, domain: Domain) -> None:
    if section == "settings":
        if name.partition(".")[0] == "validation":
            raise InputError(f"{name}: this setting does not change the model; leave it out")
        for value in domain.bounds():
            check_setting(name, value)
        return
    if name not in _SEARCH_OPTIONS:
        raise InputError(f"search: expected {' or '.join(_SEARCH_OPTIONS)}, got {shown(name)}")
    kind, least, largest = _SEARCH_OPTIONS[name]
    for value in domain.bounds():
        is_valid = _is_number(value) and (kind is float or isinstance(value, int))
        if not is_valid or not least <= value <= largest:  # type: ignore[operator]
            raise InputError(f"{name}: expected {least} to {largest:g}, got {shown(value)}")
    domain.grid(name)


def _is_scalar(value: Any) -> bool:
    return isinstance(value, bool | int | str | None) or _is_number(value)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and type(value) is not bool and math.isfinite(value)
