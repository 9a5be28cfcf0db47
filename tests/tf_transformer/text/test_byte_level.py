"""The parts and pieces of byte-level BPE."""

import random

import pytest
import regex
import tensorflow as tf

from tests.published_models.folders import write_small
from tests.published_models.models import MODELS
from tf_transformer.formats.import_model import read_model
from tf_transformer.terms.phrases import PhraseSpeller, merge_phrases
from tf_transformer.text.byte_level.characters import CHARACTERS, GPT2_CHARACTERS, text_of
from tf_transformer.text.byte_level.part_ops import split_texts
from tf_transformer.text.byte_level.parts import split_text
from tf_transformer.text.tokenizer import Tokenizer
from tf_transformer.text.vocabulary import WORD_BEGIN
from tf_transformer.text.word_characters import PieceTables
from tf_transformer.word_alignment.piece_words import word_indices

# The pattern of GPT-2's encoder.py; `\s` of the package would include U+001C to U+001F.
SPACE = r"\p{White_Space}"
PATTERN = regex.compile(
    rf"'s|'t|'re|'ve|'m|'ll|'d| ?\p{{L}}+| ?\p{{N}}+| ?[^{SPACE}\p{{L}}\p{{N}}]+"
    rf"|{SPACE}+(?![^{SPACE}])|{SPACE}+"
)
TEXTS = [
    *("", " ", "It's  a 'test', isn't it?", "x=1 \t\n y\u00a0\u00a0z  ", "don't 'tis we'll!!'s"),
    *("caf\u00e9 \u4f60\u597d \U0001f600\u200d e\u0301 \u0663\u00bd", "\x1c \x85\u3000a\ufeff"),
]
CHARACTERS_OF_TEXTS = " \t\n\v\x1c\x85\u00a0\u2028'stdmrelv" + "aZ09\u0663!-\u0301\u4f60\U0001f600"


def random_texts(number):
    choose = random.Random(1).choices
    return ["".join(choose(CHARACTERS_OF_TEXTS, k=1 + index % 12)) for index in range(number)]


def test_parts():
    texts = TEXTS + random_texts(500)
    expected = [PATTERN.findall(text) for text in texts]
    assert [split_text(text) for text in texts] == expected
    found = split_texts(tf.constant(texts)).to_list()
    assert [[part.decode() for part in parts] for parts in found] == expected
    assert all("".join(parts) == text for parts, text in zip(expected, texts, strict=True))


def test_characters():
    """A printable one for each byte; that of the space is SentencePiece's."""
    assert len(set(CHARACTERS)) == 256 and GPT2_CHARACTERS[32] == "\u0120"
    assert CHARACTERS[32] == WORD_BEGIN and CHARACTERS[ord("a")] == "a"
    assert "".join(GPT2_CHARACTERS).isprintable()
    piece = "".join(CHARACTERS[byte] for byte in " na\u00efve".encode())
    assert text_of(piece) == WORD_BEGIN + "na\u00efve"
    assert text_of(CHARACTERS[0xC3]) == "\ufffd" and text_of("<\u4f60>") == "<\u4f60>"


@pytest.fixture(scope="module")
def tokenizers(tmp_path_factory):
    """Of source and target: two merges, "h" and "e" after a space and "t", and letters."""
    folder = tmp_path_factory.mktemp("bart") / "theirs"
    write_small(folder, next(x for x in MODELS if x.name == "facebook/bart-large-cnn"))
    imported = read_model(folder)
    return Tokenizer(imported.source_model), Tokenizer(imported.target_model)


@pytest.mark.slow
def test_ids(tokenizers):
    """In a graph as without TensorFlow; the source begins with `<s>` twice."""
    source, target = tokenizers
    texts = TEXTS + random_texts(200)
    ids = target.tokenize(texts).to_list()
    assert target.encode(texts) == ids
    assert [text.decode() for text in target.detokenize(target.tokenize(texts)).numpy()] == texts
    begin = [target.pieces.index("<s>")] * 2
    assert source.begin_ids == begin and not target.begin_ids
    assert source.tokenize(texts).to_list() == [begin + row if row else row for row in ids]
    assert source.encode(texts) == source.tokenize(texts).to_list()
    pieces = [target.pieces[x] for x in target.encode(["an at<s>"])[0]]
    assert pieces == ["an", WORD_BEGIN, "at", "<", "s", ">"]
    assert target.detokenize(tf.constant([begin])).numpy()[0] == b""


def test_bytes_that_are_no_text(tokenizers):
    _, target = tokenizers
    assert target.tokenize(tf.constant([b"a\xff"])).to_list() == target.encode(["a\ufffd"])
    half = target.pieces.index(CHARACTERS[0xC3])
    (text,) = target.detokenize(tf.constant([[half, target.pieces.index("a")]])).numpy()
    assert text.decode() == "\ufffda"
    assert target.encode(["a\0"])[0][-1] == 1  # the one byte that the table has no place for


def test_words(tokenizers):
    """`<s>` belongs to none, and the first one has no space before it."""
    target = tokenizers[1]
    texts = ["Zo\u00eb eats it.", "a", ""]
    for tokenizer in tokenizers:
        words = word_indices(tokenizer.tokenize(texts), tokenizer)
        expected = [[0] * 4 + [1] * 4 + [2] * 3, [0], []]
        begin = [-1] * len(tokenizer.begin_ids)
        assert words.to_list() == [begin + row if row else row for row in expected]
    tables = PieceTables.of(target)
    is_letter = [
        tables.ends_in_word[target.encode([text])[0][-1]] for text in ("at", "!", "\u00eb")
    ]
    assert is_letter == [True, False, False]


def test_spellings_of_a_term(tokenizers):
    """With and without a space before it, and none of the padding."""
    _, target = tokenizers
    terms = tf.ragged.constant([["an \u00eb", "at"], []], dtype=tf.string, ragged_rank=1)
    wanted = merge_phrases(terms, tf.ragged.constant([[], []], dtype=tf.string, ragged_rank=1))
    constraints, is_writable = PhraseSpeller(target, [3]).constraints(wanted)
    assert is_writable[0].numpy().tolist()[:2] == [True, True]
    assert constraints.needed.numpy()[1].max() == 0
    spellings = constraints.ids[0, 0].numpy()
    with_space, without = ([x for x in row if x] for row in spellings)
    assert with_space[0] == target.pieces.index(WORD_BEGIN) and with_space[1:] == without
    assert without == target.encode(["an \u00eb"])[0]
