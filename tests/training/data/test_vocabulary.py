"""Training SentencePiece models: their kinds, their special ids, and corpora that are too small."""

import re

import pytest
from sentencepiece import SentencePieceProcessor

from tf_transformer.text.text_file import TextFile
from training.config import VocabularyConfig
from training.data.vocabulary import train_sentencepiece, train_vocabularies

KINDS = ["bpe", "unigram", "char"]
ENGLISH = [f"the {color} house number {n}" for n in range(40) for color in ("red", "blue", "old")]
CHINESE = [f"第{n}个{color}房子在街道上" for n in range(40) for color in ("红色", "蓝色", "旧")]
NUM_SPECIAL = 4
NUM_BYTES = 256


def make_processor(model: bytes) -> SentencePieceProcessor:
    return SentencePieceProcessor(model_proto=model)


def pieces_of(model: bytes) -> list[str]:
    processor = make_processor(model)
    return [processor.id_to_piece(number) for number in range(processor.vocab_size())]


def train(lines=ENGLISH, **settings) -> bytes:
    return train_sentencepiece(lines, VocabularyConfig(**({"size": 320} | settings)))


@pytest.fixture
def files(tmp_path):
    (tmp_path / "source").write_text("\n".join(ENGLISH), encoding="utf-8")
    (tmp_path / "target").write_text("\n".join(CHINESE), encoding="utf-8")
    return TextFile(tmp_path / "source"), TextFile(tmp_path / "target")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("joint", [True, False])
def test_vocabularies_of_both_sides(files, kind, joint):
    models = train_vocabularies(
        *([file] for file in files), VocabularyConfig(size=330, kind=kind, joint=joint)
    )
    assert (models[0] == models[1]) is joint
    source, target = (set(pieces_of(model)) for model in models)
    assert {"h", "o"} <= source
    assert {"第", "街"} <= target
    assert ({"第", "街"} <= source) is joint
    assert ({"h", "o"} <= target) is joint


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("byte_fallback", [True, False])
def test_special_ids(kind, byte_fallback):
    size = 320 if byte_fallback else 64
    processor = make_processor(train(kind=kind, byte_fallback=byte_fallback, size=size))
    assert [processor.pad_id(), processor.unk_id()] == [0, 1]
    assert [processor.bos_id(), processor.eos_id()] == [2, 3]
    assert [processor.is_control(number) for number in range(5)] == [True, False, True, True, False]
    assert processor.is_unknown(1)
    # No text spells them.
    text = "<pad> <unk> <s> </s> <0x41>"
    ids = processor.encode(text)
    assert not {0, 2, 3} & set(ids)
    assert processor.decode(ids) == text or not byte_fallback


def test_sizes():
    assert len(pieces_of(train(kind="bpe", size=320))) == 320
    assert len(pieces_of(train(kind="unigram", size=285))) == 285
    # What there is, where that is less; the blank is a character of its own.
    characters = {character for line in ENGLISH for character in line}
    expected = NUM_SPECIAL + NUM_BYTES + len(characters)
    assert len(pieces_of(train(kind="char", size=5000))) == expected
    assert expected < len(pieces_of(train(kind="unigram", size=5000))) < 5000


def test_kinds():
    def inner(kind):
        model = train(kind=kind, size=320)
        return [piece for piece in pieces_of(model)[NUM_SPECIAL + NUM_BYTES :] if len(piece) > 1]

    assert inner("bpe") and inner("unigram")
    assert not inner("char")


def test_byte_fallback():
    rare = "🦄 ж"
    with_bytes = make_processor(train(byte_fallback=True))
    without = make_processor(train(byte_fallback=False, size=64))
    assert 1 not in with_bytes.encode(rare)
    assert with_bytes.decode(with_bytes.encode(rare)) == rare
    assert 1 in without.encode(rare)


def test_split_digits():
    def long_numbers(split_digits):
        model = train(["in 1984 and 1984"] * 50, size=275, split_digits=split_digits)
        return [piece for piece in pieces_of(model) if re.search(r"^\D?\d\d", piece)]

    assert long_numbers(False)
    assert not long_numbers(True)


def test_normalization():
    def spell(normalization):
        processor = make_processor(train(kind="char", normalization=normalization))
        return processor.decode(processor.encode("Ａ，ﬁ"))

    assert spell("nmt_nfkc") == spell("nfkc") == "A,fi"
    assert spell("nmt_nfkc_cf") == spell("nfkc_cf") == "a,fi"
    assert spell("identity") == "Ａ，ﬁ"


def test_character_coverage():
    lines = ["aaaaaaaaa bbbbbbbbb"] * 99 + ["aaaaaaaaa bbbbbbbbß"]
    assert "ß" in pieces_of(train(lines, kind="char", character_coverage=1.0))
    assert "ß" not in pieces_of(train(lines, kind="char", character_coverage=0.99))


@pytest.mark.parametrize("kind", KINDS)
def test_the_same_corpus_gives_the_same_model(kind):
    assert train(kind=kind) == train(kind=kind)


def test_long_lines_count():
    # SentencePiece leaves out lines of more than 4192 bytes unless told otherwise.
    lines = [*ENGLISH, "x" * 60_000 + "Ж"]
    assert "Ж" in pieces_of(train(lines, kind="char", character_coverage=1.0))


# ---- Corpora and sizes that do not fit ----


@pytest.mark.parametrize("byte_fallback", [True, False])
@pytest.mark.parametrize("num_lines", [1, 10])
def test_corpus_too_small_names_the_size_that_would_do(num_lines, byte_fallback):
    def train_with(size):
        return train(ENGLISH[:num_lines], size=size, byte_fallback=byte_fallback)

    message = (
        "the corpus is too small for a vocabulary of 5000 bpe pieces: "
        r"it fills at most (\d+); set --vocab-size \1 or less$"
    )
    with pytest.raises(ValueError, match=message) as raised:
        train_with(5000)
    size = int(re.search(message, str(raised.value))[1])
    assert len(pieces_of(train_with(size))) == size
    with pytest.raises(ValueError, match=f"of {size + 1} bpe pieces: it fills at most {size};"):
        train_with(size + 1)


def test_the_side_that_is_too_small_counts(tmp_path):
    (tmp_path / "source").write_text("\n".join(ENGLISH), encoding="utf-8")
    (tmp_path / "target").write_text("aa\n", encoding="utf-8")
    files = TextFile(tmp_path / "source"), TextFile(tmp_path / "target")
    train_vocabularies(*([file] for file in files), VocabularyConfig(size=320, joint=True))
    with pytest.raises(ValueError, match=r"of 320 bpe pieces: it fills at most 26\d;"):
        train_vocabularies(*([file] for file in files), VocabularyConfig(size=320, joint=False))


@pytest.mark.parametrize(
    ("kind", "size"),
    [(kind, size) for kind in KINDS for size in (3, 100)]
    # A char model would leave out the rarest characters.
    + [(kind, NUM_SPECIAL + NUM_BYTES + 5) for kind in ("bpe", "unigram")],
)
def test_vocabulary_too_small_for_the_characters(kind, size):
    message = (
        f"^(no vocabulary of {size} {kind} pieces can be trained: .+|a vocabulary of {size} pieces "
        r"is too small for the corpus's characters .*: set --vocab-size \d+ or more)$"
    )
    if size < NUM_SPECIAL:
        message = f"^a vocabulary of {size} pieces has room for nothing but its 4 special ones; set"
    with pytest.raises(ValueError, match=message) as raised:
        train(kind=kind, size=size)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ([], "^no vocabulary of 320 {kind} pieces can be trained: "),
        (["", ""], "^no vocabulary of 320 {kind} pieces can be trained: "),
        (["  ", "\t"], "^the corpus contains only white space$"),
    ],
)
def test_corpus_without_text(kind, lines, message):
    with pytest.raises(ValueError, match=message.format(kind=kind)):
        train(lines, kind=kind)
