"""Vocabularies of words, against Python's `str.split` and a dict."""

import random
import re
import sys

import pytest
import tensorflow as tf

from tests.tf_transformer.formats.random_model import SOURCES, TARGETS
from tf_transformer.formats.word_vocabulary import word_model
from tf_transformer.text.tokenizer import Tokenizer
from tf_transformer.text.vocabulary import WORD_SEPARATORS, Vocabulary

# As `re` separates words, by the names of `WORD_SEPARATORS`.
SPLITS = {
    "spaces": lambda text: [word for word in text.split(" ") if word],
    "ASCII white space": lambda text: re.findall(r"\S+", text, re.ASCII),
    "white space": str.split,
}
# Names of special pieces, SentencePiece's space, what NFKC and lower-casing would change, and words
# that begin like others.
ODD_WORDS = [
    *("</s>", "<unk>", "\u2581", "\u2581x", "x\u2581", "ﬁ", "½", "É", "e\u0301", "@@", "@@@"),
    "\u2047",
]
UNICODE_SPACES = [chr(code) for code in range(sys.maxunicode + 1) if chr(code).isspace()]
# Not white space, though some programs treat them so.
NO_SPACES = ["\u200b", "\ufeff", "\u2060", "\u180e", "\x1b"]


@pytest.fixture(scope="module")
def words():
    """Half of the words of the sentences, so that unknown words stand beside each other."""
    pieces = dict.fromkeys(re.sub(r"(\w\w)(\w)", r"\1@@ \2", " ".join(SOURCES)).split())
    return [*list(pieces)[::2], *ODD_WORDS]


@pytest.fixture(scope="module")
def texts(words):
    """1,000 sentences, with odd spaces between and in words."""
    choose = random.Random(1)
    lines = [re.sub(r"(\w\w)(\w)", r"\1@@ \2", line) for line in (SOURCES + TARGETS)[:1000]]
    lines[:3] = ["", " ", "unknown1 unknown2  unknown3"]
    kinds = [" ", "  ", *UNICODE_SPACES, *NO_SPACES]
    for index in range(3, 1000, 2):
        parts = lines[index].split() + choose.sample(ODD_WORDS, 2)
        choose.shuffle(parts)
        joined = "".join(part + choose.choice([" ", choose.choice(kinds)]) for part in parts)
        lines[index] = choose.choice(kinds) + joined
    assert all(any(space in line for line in lines) for space in kinds)
    return lines


def test_white_space_is_python_s():
    assert sorted(WORD_SEPARATORS["white space"]) == UNICODE_SPACES


@pytest.mark.parametrize("separators", SPLITS)
def test_ids_are_those_of_split_and_a_dict(words, texts, separators):
    ids = {word: token_id for token_id, word in enumerate(words, 4)}
    expected = [[ids.get(word, 1) for word in SPLITS[separators](text)] for text in texts]
    assert expected[2] == [1, 1, 1] and sum(line.count(1) for line in expected) > 1000
    assert sum(token_id >= 4 for line in expected for token_id in line) > 3000
    model = word_model(words, separators)
    vocabulary = Vocabulary(model)
    assert vocabulary.vocab_size == len(words) + 4
    assert vocabulary.pieces == ["<pad>", "<unk>", "<s>", "</s>", *("\u2581" + w for w in words)]
    assert vocabulary.encode(texts) == expected
    assert Tokenizer(model).tokenize(texts).to_list() == expected


def test_invalid_utf8_is_replaced():
    tokenizer = Tokenizer(word_model(["a", "\ufffd"], "spaces"))
    assert tokenizer.tokenize([b"a \xff a\xff a"]).to_list() == [[4, 5, 1, 4]]


@pytest.mark.slow
def test_texts_are_words_with_spaces_between(words):
    tokenizer = Tokenizer(word_model(words, "white space"))
    ids = [[2, 4, *range(4 + len(words) - len(ODD_WORDS), 4 + len(words)), 3, 0], [], [5, 1, 6]]
    ids = tf.ragged.constant(ids, dtype=tf.int32)
    found = [text.decode() for text in tokenizer.detokenize(ids).numpy()]
    assert found == [" ".join([words[0], *ODD_WORDS]), "", f"{words[1]} \u2047 {words[2]}"]
    found = tf.function(tokenizer.detokenize)(ids.to_tensor()).numpy()
    assert found[0].decode() == " ".join([words[0], *ODD_WORDS])
    assert tokenizer.pieces_of(ids).to_list()[2][0].decode() == "\u2581" + words[1]


def test_text_survives(words):
    """Of known words."""
    tokenizer = Tokenizer(word_model(words, "white space"))
    text = " ".join(words)
    assert tokenizer.detokenize(tokenizer.tokenize([text])).numpy()[0].decode() == text


def test_language_tags():
    vocabulary = Vocabulary(word_model(["a", ">>fra<<", "<2de>"], "spaces"))
    assert vocabulary.languages == [">>fra<<"] and vocabulary.tag_ids == [5]
    assert vocabulary.encode([">>fra<< a"]) == [[5, 4]]


@pytest.mark.parametrize(
    ("words", "separators"),
    [
        (["a", "b", "a"], "spaces"),
        (["a", ""], "spaces"),
        (["a b"], "spaces"),
        (["a\tb"], "ASCII white space"),
        (["a\u3000b"], "white space"),
        (["\ud800"], "spaces"),
    ],
)
def test_faulty_words(words, separators):
    with pytest.raises(ValueError, match=f"without {separators} in them. Received: '"):
        word_model(words, separators)
