"""JSON files as they are written."""

import os

import pytest

from tf_transformer.errors import InputError
from tf_transformer.storage.json_files import parse_json, read_json, write_json


@pytest.mark.parametrize("indent", [None, 2])
def test_what_is_written_can_be_read(tmp_path, indent):
    value = {"text": 'ä中\n"', "number": 0.1, "none": None, "list": [1, True], "empty": {}}
    path = tmp_path / "value.json"
    write_json(path, value, indent=indent)
    assert read_json(path) == value
    content = path.read_bytes()
    assert content.endswith(b"}\n")
    assert "ä中".encode() in content
    assert (content.count(b"\n") == 1) == (indent is None)


def test_file_names_that_are_not_utf_8(tmp_path):
    name = os.fsdecode(b"corpus-\xff.en")
    path = tmp_path / "value.json"
    write_json(path, {"file": name, name: 1})
    assert read_json(path) == {"file": name, name: 1}


@pytest.mark.parametrize("number", [float("nan"), float("inf")])
def test_numbers_that_no_reader_accepts(tmp_path, number):
    path = tmp_path / "value.json"
    with pytest.raises(ValueError, match="not JSON compliant"):
        write_json(path, {"loss": number})
    assert not path.exists()


def test_repeated_keys():
    content = b'{"a": {"b": 1, "c": 2, "b": 3}}'
    assert parse_json(content, "it") == {"a": {"b": 3, "c": 2}}
    with pytest.raises(InputError, match=r"it: not JSON \(the key 'b' is repeated\)"):
        parse_json(content, "it", unique_keys=True)
    assert parse_json(b'{"a": {"a": 1}}', "it", unique_keys=True) == {"a": {"a": 1}}
