"""Tokens to copy: what they look like, and where they are."""

import re
import unicodedata

import pytest
import tensorflow as tf

from tf_transformer.text.language_tags import is_tag
from training.noise.copies import KINDS, insert_copies, kinds_of_copies, make_copies
from training.noise.draws import pair_keys

NUMBER = 4000
PATTERNS = {
    "tag": r"</?[a-z]+\d{0,2}>|<[a-z]+\d{0,2}/>|\{[a-z]+\d{0,2}\}",
    "address": r"(https://)?(www\.)?[a-z]{3,9}\.[a-z]{2,4}(/[a-z0-9]{1,8})?"
    r"|[a-z0-9]{1,8}@[a-z]{3,9}\.[a-z]{2,4}",
    "number": r"#?\d{3,8}|[A-Z]{1,3}-?\d{3,8}",
}


@pytest.fixture(scope="module")
def keys():
    return pair_keys(1, tf.range(NUMBER))


@pytest.fixture(scope="module")
def tokens(keys):
    return [token.decode() for token in make_copies(keys).numpy()]


def test_kinds_are_as_named(keys, tokens):
    by_kind = {kind: set() for kind in KINDS}
    for kind, token in zip(kinds_of_copies(keys).numpy(), tokens, strict=True):
        by_kind[KINDS[kind]].add(token)
    for kind, pattern in PATTERNS.items():
        assert all(re.fullmatch(pattern, token) for token in by_kind[kind])
        assert len(by_kind[kind]) > 100
    assert not any(re.search(r"[\w<>]", token) for token in by_kind["emoji"])
    assert len(by_kind["emoji"]) > 100
    joined = {character for token in by_kind["emoji"] for character in token}
    assert {"\u200d", "\U0001f3fd"} <= joined  # joiners and skin tones


def test_tokens_survive_normalization_and_are_no_language_tags(tokens):
    for token in tokens:
        assert unicodedata.normalize("NFKC", token) == token
        assert token == "".join(token.split()) != ""
        assert not is_tag(token) and token != "<bt>"


def test_places(keys, tokens):
    sources = [f"<2de>  a {n}. " for n in range(NUMBER)]
    targets = [f" ein {n}." for n in range(NUMBER)]
    pair = insert_copies(*map(tf.constant, (sources, targets, tokens)), keys)
    num_first = 0
    for n, (source, target, token) in enumerate(
        zip(*(side.numpy().tolist() for side in pair), tokens, strict=True)
    ):
        is_first = target.decode().startswith(token)
        num_first += is_first
        expected = (
            (f"<2de>  {token} a {n}.", f"{token} ein {n}.")
            if is_first
            else (f"<2de>  a {n}. {token}", f"ein {n}. {token}")
        )
        assert (source.decode(), target.decode()) == expected
    assert abs(num_first - NUMBER / 2) < 5 * (NUMBER / 4) ** 0.5


@pytest.mark.parametrize("tags", ["", "<2de> ", ">>de<< >>en<< ", "<bt> <2zh-Hant> "])
def test_tags_stay_first(tags):
    keys = pair_keys(1, tf.range(50))
    texts = [tf.fill([50], text) for text in (f"{tags}ab", "cd", "X1")]
    sources, targets = (side.numpy().tolist() for side in insert_copies(*texts, keys))
    expected = {(f"{tags}X1 ab".encode(), b"X1 cd"), (f"{tags}ab X1".encode(), b"cd X1")}
    assert set(zip(sources, targets, strict=True)) == expected
