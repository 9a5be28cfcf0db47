"""YAML from anywhere: values as YAML 1.2 has them, and one short line for all else."""

import math
import re

import pytest

from tf_transformer.storage.plain_yaml import read_yaml


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("", None),
        ("~", None),
        ("null", None),
        ("no", "no"),
        ("on", "on"),
        ("true", True),
        ("FALSE", False),
        ("1e-5", 1e-5),
        ("-1.5E+3", -1500.0),
        (".5", 0.5),
        ("-.inf", -math.inf),
        ("10_000", 10_000),
        ("-7", -7),
        ("010", 10),
        ("0o17", 15),
        ("0x1F", 31),
        ("1:30", "1:30"),
        ("0x_", "0x_"),
        ("2020-01-02", "2020-01-02"),
        ("2020-13-45", "2020-13-45"),
        ("'7'", "7"),
        ("[a, {b: 1}]", ["a", {"b": 1}]),
        ("a: &x {b: 1}\nc: *x\nd: {<<: *x, e: 2, b: 3}", None),
    ],
)
def test_values(text, value):
    if text.startswith("a:"):
        value = {"a": {"b": 1}, "c": {"b": 1}, "d": {"b": 3, "e": 2}}
    found = read_yaml(text, "here")
    assert found == value and type(found) is type(value)


# Each is nine times the one before: a billion values in ten lines.
BOMB = "a0: &a0 [x]\n" + "".join(
    f"a{n}: &a{n} [{','.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 10)
)


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("[" * 100_000, "line 1, column 21: nested deeper than 20 levels"),
        ("{a: " * 50_000, "line 1, column 78: nested deeper than 20 levels"),
        ("- " * 5000, "line 1, column 41: nested deeper than 20 levels"),
        (BOMB, "line 5, column 30: more than 10,000 values"),
        ("a: &x [*x]", "line 1, column 8: *x contains itself"),
        ("9" * 5000, "line 1, column 1: a number of 5,000 characters is too large"),
        ("0x" + "f" * 5000, "line 1, column 1: a number of 5,002 characters is too large"),
        ("a: 1\nb: 2\na: 3", "line 3, column 1: duplicate name 'a', first in line 1"),
        ("{a: {b: 1, 'b': 1}}", "line 1, column 12: duplicate name 'b', first in line 1"),
        ("!!int abc", "line 1, column 1: expected no tags, got tag:yaml.org,2002:int"),
        ("!!timestamp x", "line 1, column 1: expected no tags, got tag:yaml.org,2002:timestamp"),
        ("--- 1\n--- 2", "line 2, column 1: expected a single document in the stream .*"),
        ("\x1b[31m: 1", "unacceptable character #x001b: .*"),
    ],
)
def test_what_is_refused(text, fault):
    with pytest.raises(ValueError) as raised:
        read_yaml(text, "here")
    pattern = fault if fault.endswith(".*") else re.escape(fault)
    assert re.fullmatch(rf"here: not YAML \({pattern}\)", str(raised.value)), raised.value
    assert str(raised.value).isprintable() and len(str(raised.value)) < 300
