"""Text to ids and back, for any text, in and out of the graph."""

import io
import pathlib
import re

import numpy as np
import pytest
import sentencepiece
import tensorflow as tf
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tf_transformer import Tokenizer
from tf_transformer.errors import InputError
from training.config import VocabularyConfig
from training.data.vocabulary import train_sentencepiece

LINES = [
    *(f"the {color} house number {n}" for n in range(40) for color in ("red", "blue")),
    *(f"das {farbe} Haus Nummer {n}" for n in range(40) for farbe in ("rote", "blaue")),
]
CHINESE = [f"第{n}个{color}房子在街道上。" for n in range(40) for color in ("红色", "蓝色", "旧")]
KINDS = ["bpe", "unigram", "char"]
ODD_TEXT = [
    b"",
    b" ",
    b"   \t  ",
    b"\n",
    b"\r\0\x01\x7f",
    b"\xff\xfe",
    b"Gr\xf6\xdfe",
    b"\xed\xa0\x80",  # a surrogate
    b"\xf0\x9f\x98",  # the beginning of an emoji
    b"\xc0\x80",  # an overlong zero
    "😀👩‍👩‍👧🏽🇩🇪".encode(),
    "e\u0301\u202e\u200b\ufeff\ufffd\U0010ffff".encode(),
    "\u2581\u2581a\u2581".encode(),
    "مرحبا שלום 我们 ไทย".encode(),
    b"x" * 5000,
    b" " * 5000,
    b"ab " * 1700,
    "我".encode() * 5000,
    b"\x80" * 5000,
]


def make_tokenizer(lines=tuple(LINES), **settings) -> Tokenizer:
    config = VocabularyConfig(**({"size": 340} | settings))
    return Tokenizer(train_sentencepiece(lines, config))


@pytest.fixture(scope="module")
def tokenizers() -> dict[str, Tokenizer]:
    """One of each kind, and one that does not normalize.

    No test of this file may set TensorFlow's random seed: see the docstring of `Tokenizer`.
    """
    made = {kind: make_tokenizer(kind=kind) for kind in KINDS}
    return made | {"identity": make_tokenizer(normalization="identity")}


def there_and_back(tokenizer: Tokenizer, text: list[str]) -> list[str]:
    ids = tokenizer.tokenize(tf.constant(text, tf.string))
    return [line.decode() for line in tokenizer.detokenize(ids).numpy()]


# ---- There ----


@pytest.mark.parametrize("kind", KINDS)
def test_ids_are_those_of_sentencepiece(tokenizers, kind):
    tokenizer = tokenizers[kind]
    processor = sentencepiece.SentencePieceProcessor(model_proto=tokenizer.model)
    text = [*LINES[::17], "  the   house ", "", "我们 😀", "<s> a </s>"]
    ids = tokenizer.tokenize(tf.constant(text))
    assert ids.dtype == tf.int32
    assert ids.to_list() == [processor.encode(line) for line in text]
    assert tokenizer.vocab_size == processor.vocab_size()
    assert tokenizer.pieces == [processor.id_to_piece(n) for n in range(tokenizer.vocab_size)]


@pytest.mark.parametrize("kind", KINDS)
def test_tokenize_adds_no_special_id(tokenizers, kind):
    text = [*LINES, "<pad> <unk> <s> </s>", "我们 😀"]
    assert tf.reduce_min(tokenizers[kind].tokenize(tf.constant(text)).flat_values) > 3


def test_no_sentences(tokenizers):
    ids = tokenizers["bpe"].tokenize(tf.constant([], tf.string))
    assert ids.nrows() == 0
    assert tokenizers["bpe"].detokenize(ids).shape == (0,)


@pytest.mark.parametrize("name", [*KINDS, "identity"])
def test_no_text_fails(tokenizers, name):
    tokenizer = tokenizers[name]
    together = tokenizer.tokenize(tf.constant(ODD_TEXT))
    for ids, text in zip(together.to_list(), ODD_TEXT, strict=True):
        assert tokenizer.tokenize(tf.constant([text])).to_list() == [ids]
        assert all(3 < number < tokenizer.vocab_size for number in ids)
    for text in tokenizer.detokenize(together).numpy():
        text.decode("utf-8")


def test_blank_text_has_no_ids(tokenizers):
    ids = tokenizers["bpe"].tokenize(tf.constant(["", " ", "  \t ", "\n", "\u3000"]))
    assert ids.to_list() == [[]] * 5


def test_invalid_utf8_is_read_as_replacement_characters(tokenizers):
    for name in ("bpe", "identity"):
        texts = [b"red \xff\xfe house", b"gr\xf6\xdf", b"a\xe2\x82"]
        ids = tokenizers[name].tokenize(tf.constant(texts))
        back = [text.decode() for text in tokenizers[name].detokenize(ids).numpy()]
        # How many of them stand for some bytes is the decoder's affair.
        found = [re.sub("\ufffd+", "\ufffd", text) for text in back]
        assert found == ["red \ufffd house", "gr\ufffd", "a\ufffd"]


# ---- And back ----


@pytest.mark.parametrize("name", [*KINDS, "identity"])
def test_known_text_comes_back(tokenizers, name):
    assert there_and_back(tokenizers[name], LINES) == LINES


@pytest.mark.slow
@given(st.lists(st.text(st.characters(exclude_categories=["Cs"])), min_size=1, max_size=8))
@example(["<0x41>", "<s>", "</s>", "\0", "a\nb\tc", "Ａ，ﬁ", "e\u0301", "\ufeff\u200b", "\u3000x"])
@example(["a  b", " a ", "  "])
@settings(max_examples=60, deadline=None)
def test_any_text_comes_back_without_normalization(tokenizers, text):
    # U+2581 is SentencePiece's blank. It keeps no blanks but single ones between words.
    text = [line.replace("\u2581", " ") for line in text]
    expected = [re.sub(" +", " ", line).strip(" ") for line in text]
    assert there_and_back(tokenizers["identity"], text) == expected


@pytest.mark.parametrize("kind", KINDS)
@given(text=st.lists(st.text(st.characters(exclude_categories=["Cs"])), min_size=1, max_size=8))
@example(text=["\u2581a\u2581", "Ａ，ﬁ １２", "e\u0301", "\ufeff\u200b\ufffd"])
@settings(max_examples=25, deadline=None)
def test_any_text_comes_back_as_it_is_normalized(tokenizers, kind, text):
    processor = sentencepiece.SentencePieceProcessor(model_proto=tokenizers[kind].model)
    normalized = [processor.normalize(line).replace("\u2581", " ").strip(" ") for line in text]
    assert there_and_back(tokenizers[kind], text) == normalized


@pytest.mark.parametrize("kind", KINDS)
def test_chinese_comes_back_without_segmentation(kind):
    tokenizer = make_tokenizer(CHINESE, kind=kind, normalization="identity")
    unseen = ["我们在红色的街道上找到了第7个房子，真的吗？", "第100个旧房子（蓝色）。"]
    for text in (CHINESE, unseen):
        assert there_and_back(tokenizer, text) == text


def test_text_without_byte_fallback_loses_the_unknown():
    tokenizer = make_tokenizer(byte_fallback=False, size=80)
    ids = tokenizer.tokenize(tf.constant(["the 我 house"]))
    assert 1 in ids.to_list()[0]


def with_special_ids(ids: list[int], special: list[int]) -> list[int]:
    """Puts one special id after the other between the ids, and all at both ends."""
    inner = []
    for place, number in enumerate(ids):
        inner += [number, special[place % len(special)]]
    return special + inner + special


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "special",
    [
        [0],
        [2],
        [3],
        [0, 2, 3],
    ],
)
def test_special_ids_leave_no_trace(tokenizers, kind, special):
    tokenizer = tokenizers[kind]
    ids = [with_special_ids(row, special) for row in tokenizer.tokenize(LINES[:5]).to_list()]
    text = tokenizer.detokenize(tf.ragged.constant(ids, tf.int32))
    assert [line.decode() for line in text.numpy()] == LINES[:5]
    alone = tokenizer.detokenize(tf.constant([special], tf.int32))
    assert alone.numpy().tolist() == [b""]


@pytest.mark.parametrize("kind", KINDS)
def test_ragged_and_dense_ids_agree(tokenizers, kind):
    tokenizer = tokenizers[kind]
    ragged = tokenizer.tokenize(tf.constant(["", "the red house", "我们", "a", "das Haus"]))
    text = tokenizer.detokenize(ragged)
    assert text.numpy().tolist() == [b"", b"the red house", "我们".encode(), b"a", b"das Haus"]
    for width in (None, [5, 100]):
        dense = tokenizer.detokenize(ragged.to_tensor(0, shape=width))
        np.testing.assert_array_equal(dense, text)


@pytest.mark.slow
def test_static_shapes(tokenizers):
    @tf.function(input_signature=[tf.TensorSpec([3, None], tf.int32)])
    def three(ids):
        text = tokenizers["bpe"].detokenize(ids)
        assert text.shape == (3,)
        return text

    @tf.function(input_signature=[tf.TensorSpec([None, None], tf.int32)])
    def any_number(ids):
        text = tokenizers["bpe"].detokenize(ids)
        assert text.shape.as_list() == [None]
        return text

    ids = tf.zeros((3, 4), tf.int32)
    assert three(ids).numpy().tolist() == any_number(ids).numpy().tolist() == [b""] * 3


# ---- In the graph ----


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_graphs_do_what_eager_calls_do(tokenizers, kind):
    tokenizer = tokenizers[kind]
    text = tf.constant([*LINES[:6], *ODD_TEXT])
    ids = tokenizer.tokenize(text)
    back = tokenizer.detokenize(ids).numpy().tolist()

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string)])
    def in_function(text):
        ids = tokenizer.tokenize(text)
        return ids, tokenizer.detokenize(ids)

    found = in_function(text)
    assert found[0].to_list() == ids.to_list()
    assert found[1].numpy().tolist() == back

    batches = tf.data.Dataset.from_tensor_slices(text).batch(4).map(in_function)
    found_ids, found_back = [], []
    for batch_ids, batch_back in batches:
        found_ids += batch_ids.to_list()
        found_back += batch_back.numpy().tolist()
    assert found_ids == ids.to_list()
    assert found_back == back


# ---- What is refused ----


@pytest.mark.parametrize("model", [b"no model", bytes(100), b"\xff" * 20])
def test_not_a_sentencepiece_model(model):
    message = f"Not a SentencePiece model ({len(model)} bytes)."
    with pytest.raises(ValueError, match=re.escape(message)):
        Tokenizer(model)


@pytest.mark.parametrize("kind", [str, pathlib.Path])
def test_a_path_of_a_model(kind, tmp_path):
    model = train_sentencepiece(LINES, VocabularyConfig(kind="char"))
    (tmp_path / "source.spm").write_bytes(model)
    tokenizer = Tokenizer(kind(tmp_path / "source.spm"))
    assert tokenizer.model == model
    assert tokenizer.tokenize(LINES[:1]).to_list() == Tokenizer(model).tokenize(LINES[:1]).to_list()


def test_paths_that_are_none_of_a_model(tmp_path):
    (tmp_path / "text").write_text("no model")
    for path, message in (
        (tmp_path / "none.spm", "none.spm: no such file; expected the file of a SentencePiece"),
        (str(tmp_path), f"{tmp_path}: a folder; expected the file of a SentencePiece model, such"),
        (tmp_path / "text", "text: Not a SentencePiece model (8 bytes)"),
        (["source.spm"], "must be a SentencePiece model as bytes, or the path of its file. Rec"),
    ):
        with pytest.raises(InputError, match=re.escape(message)):
            Tokenizer(path)


def test_half_a_sentencepiece_model():
    model = train_sentencepiece(LINES, VocabularyConfig(size=340))
    with pytest.raises(ValueError, match=r"Not a SentencePiece model \(\d+ bytes\)\.$"):
        Tokenizer(model[: len(model) // 2])


@pytest.mark.parametrize(
    "ids", [(-1, 0, 1, 2), (3, 0, 1, 2), (0, 1, 3, 2), (1, 0, 2, 3), (0, 1, 2, -1), (0, 1, -1, 3)]
)
def test_other_special_ids(ids):
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(LINES),
        model_writer=model,
        model_type="char",
        vocab_size=50,
        hard_vocab_limit=False,
        minloglevel=2,
        **dict(zip(("pad_id", "unk_id", "bos_id", "eos_id"), ids, strict=True)),
    )
    message = (
        "The SentencePiece model must have (pad, unknown, begin, end) ids (0, 1, 2, 3). "
        f"Received: {ids}. Train it with --pad_id=0 --unk_id=1 --bos_id=2 --eos_id=3"
    )
    with pytest.raises(ValueError, match=re.escape(message) + "$"):
        Tokenizer(model.getvalue())


def test_tokenizers_of_one_saved_model_stay_apart(tmp_path):
    """Loaded, resources are found by their names: two of one name would be one."""
    pair = tf.Module()
    pair.one, pair.two = make_tokenizer(), make_tokenizer(CHINESE)
    text = tf.constant(["the red house", "第1个红色房子"])

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string)])
    def both(text):
        return {
            name: tokenizer.tokenize(text).to_tensor()
            for name, tokenizer in (("one", pair.one), ("two", pair.two))
        }

    pair.both = both
    tf.saved_model.save(pair, str(tmp_path / "saved"))
    loaded = tf.saved_model.load(str(tmp_path / "saved")).both(text)
    for name, tokenizer in (("one", pair.one), ("two", pair.two)):
        expected = tokenizer.tokenize(text).to_tensor()
        np.testing.assert_array_equal(loaded[name], expected, err_msg=name)
