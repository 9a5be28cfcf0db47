"""Odd vocabularies in YAML, against yaml-cpp, which Marian reads and writes them with."""

import json

import pytest

from tests.tf_transformer.formats.marian.make_yaml_entries import GOLDEN
from tests.tf_transformer.formats.marian.odd_vocabularies import ODD_PIECES, VOCABULARIES
from tf_transformer.errors import InputError
from tf_transformer.formats.marian.yaml_vocabulary import read_entries, write_entries

THEIRS = json.loads(GOLDEN.read_text())
# yaml-cpp reads the first document only, and a single byte for "\\N" and "\\_".
OWN = {"two documents": None, "escaped next line": [("</s>", 0), ("\x85\u2028\u2029\xa0", 1)]}


def read(content):
    """Pieces and ids, or None for a vocabulary that is refused in one line."""
    try:
        return list(read_entries(content, "v.yml"))
    except InputError as error:
        message = str(error)
        assert message.startswith("v.yml: expected only pieces and their ids in YAML (line ")
        assert "\n" not in message
        return None


def decoded(entries):
    return entries and [(bytes.fromhex(piece).decode(), token_id) for piece, token_id in entries]


@pytest.mark.parametrize("name", VOCABULARIES)
def test_as_by_yaml_cpp(name):
    expected = OWN[name] if name in OWN else decoded(THEIRS["read"][name])
    assert read(VOCABULARIES[name]) == expected


def test_pieces_that_yaml_cpp_wrote():
    assert read(bytes.fromhex(THEIRS["written"])) == [(x, i) for i, x in enumerate(ODD_PIECES)]


def test_pieces_that_yaml_cpp_reads():
    """They come back, there and here."""
    text = bytes.fromhex(THEIRS["written here"])
    assert write_entries(ODD_PIECES).encode() == text
    expected = [(piece, token_id) for token_id, piece in enumerate(ODD_PIECES)]
    assert decoded(THEIRS["read from what is written here"]) == read(text) == expected
