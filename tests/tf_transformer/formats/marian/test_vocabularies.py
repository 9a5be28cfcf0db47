"""Vocabularies of Marian, against SentencePiece and plain Python, and the search for files."""

import pytest
import sentencepiece
import tensorflow as tf

from tests.tf_transformer.formats.random_model import SOURCES, train_vocabularies
from tf_transformer.formats.marian.folder import find_files
from tf_transformer.formats.marian.vocabularies import read_vocabulary, write_vocabulary
from tf_transformer.text.tokenizer import Tokenizer
from tf_transformer.text.vocabulary import Vocabulary

ODD = ["ß", "ßxß", "Zoë 你好", "  a\tb ", "", " ", "</s> <unk> <s>", ">>fra<< a", "a >>fra<< b"]


def train(path, **options):
    """A SentencePiece model, by default with the options of Marian's trainer."""
    prefix = path.with_suffix("")
    settings = dict(vocab_size=120, bos_id=-1, eos_id=0, unk_id=1, character_coverage=1.0)
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(SOURCES),
        model_prefix=str(prefix),
        minloglevel=2,
        **(settings | options),
    )
    prefix.with_suffix(".model").rename(path)


@pytest.mark.parametrize(
    "options",
    [
        {},
        dict(model_type="bpe", byte_fallback=True, vocab_size=400),
        dict(user_defined_symbols=[">>fra<<", "<2de>"]),
        dict(unk_id=5, eos_id=7, bos_id=2, pad_id=3, eos_piece="<end>"),
    ],
)
def test_sentencepiece(tmp_path, options):
    """The same pieces in the same order, so that ids differ by the special ones only."""
    train(tmp_path / "v.spm", **options)
    original = sentencepiece.SentencePieceProcessor(model_file=str(tmp_path / "v.spm"))
    rows, model, is_segmented, notes = read_vocabulary(tmp_path / "v.spm", tmp_path / "no.spm")
    vocabulary = Vocabulary(model)
    assert not is_segmented and not vocabulary.is_renumbered and notes == ()
    assert vocabulary.vocab_size == rows.vocab_size == original.vocab_size() + 2
    size = original.vocab_size()
    assert list(rows.rows[:4]) == [size, original.unk_id(), size, original.eos_id()]
    assert rows.added == (0, 2) and rows.original_size == size
    assert vocabulary.pieces[4:] == [original.id_to_piece(int(row)) for row in rows.rows[4:]]
    texts = [*SOURCES[:200], *ODD]
    expected = [[list(rows.rows).index(x) for x in ids] for ids in original.encode(texts)]
    assert vocabulary.encode(texts) == expected
    tokenizer = Tokenizer(model)
    assert tokenizer.tokenize(texts).to_list() == expected
    decoded = [text.decode() for text in tokenizer.detokenize(tf.ragged.constant(expected)).numpy()]
    unknown = rows.rows[1]
    assert any(1 in ids for ids in expected) != ("byte_fallback" in options)
    for ids, text in zip(original.encode(texts), decoded, strict=True):
        if unknown not in ids:  # this project's text of an unknown piece is its own
            assert text == original.decode(ids)


def test_words(tmp_path):
    """Without a SentencePiece model, text is split at spaces, and nothing else happens to it."""
    words = ["</s>", "<unk>", "a", "Café", "b@@", "ﬁ", "'", '"', "no", "1", ">>fra<<", "▁a"]
    lines = [f"{word}: {number}" for number, word in enumerate(words[:6])]
    lines += ['"\'": 6', "'\"': 7", "no: 8", "1: 9", "'>>fra<<': 10", "▁a: 11"]
    (tmp_path / "v.yml").write_text("\n".join(lines), encoding="utf-8")
    rows, model, is_segmented, notes = read_vocabulary(tmp_path / "v.yml", tmp_path / "no.spm")
    assert is_segmented and rows.pieces == words[2:] and notes == ()
    tokenizer = Tokenizer(model)
    texts = ["a Café b@@ ﬁ ' \" no 1", " a  fi b@@a ▁a cafe", ">>fra<< a", ""]
    expected = [[words.index(w) + 2 if w in words else 1 for w in text.split()] for text in texts]
    assert tokenizer.tokenize(texts).to_list() == expected
    found = tokenizer.detokenize(tf.ragged.constant(expected)).numpy()
    assert [text.decode() for text in found[[0, 2, 3]]] == [texts[0], texts[2], ""]
    assert tokenizer.languages == [">>fra<<"]
    write_vocabulary(tmp_path / "again.yml", tokenizer)
    again = read_vocabulary(tmp_path / "again.yml", tmp_path / "no.spm")
    assert again[1:] == (model, True, ()) and again.rows.pieces == rows.pieces


def test_yaml_with_sentencepiece(tmp_path):
    """As of OPUS-MT: the ids of the YAML file, the segmentation of the SentencePiece model."""
    (tmp_path / "source.spm").write_bytes(train_vocabularies(False)[0])
    original = sentencepiece.SentencePieceProcessor(model_file=str(tmp_path / "source.spm"))
    pieces = [">>fra<<", *(original.id_to_piece(token_id) for token_id in range(119, 8, -1))]
    names = [*pieces, "</s>", "<unk>"]
    lines = [f"'{name}': {number}" for number, name in enumerate(names)]
    text = "\n".join(line.replace("'''", '"\'"') for line in lines)
    (tmp_path / "v.yml").write_text(text, encoding="utf-8")
    rows, model, is_segmented, notes = read_vocabulary(tmp_path / "v.yml", tmp_path / "source.spm")
    assert not is_segmented and notes == () and list(rows.rows[:4]) == [114, 113, 114, 112]
    vocabulary = Vocabulary(model)
    for text in SOURCES[:200]:
        expected = [
            4 + pieces.index(piece) if piece in pieces else 1
            for piece in original.encode(text, out_type=str)
        ]
        assert vocabulary.encode([text, f">>fra<< {text}"]) == [expected, [4, *expected]]


def test_names_of_nematus(tmp_path):
    (tmp_path / "v.json").write_text('{"eos": 0, "UNK": 1, "a": 2}')
    rows = read_vocabulary(tmp_path / "v.json", tmp_path / "no.spm").rows
    assert list(rows.rows) == [3, 1, 3, 0, 2]


ONE = ["m.npz", "m.npz.optimizer.npz", "m.npz.decoder.yml", "other.spm"]
NAMED = "models: [/train/m.npz]\nvocabs: [/data/a.spm, ../b.yml]\n"
FILES = {
    "by decoder.yml": ("", ["m.npz", "n.npz", "decoder.yml"], ["a.spm", "b.yml"]),
    "a file by its own decoder.yml": ("m.npz", ONE, ["a.spm", "b.yml"]),
    "the only file by its own decoder.yml": ("", ONE, ["a.spm", "b.yml"]),
    "a file by decoder.yml": ("m.npz", ["m.npz", "decoder.yml"], ["a.spm", "b.yml"]),
    "another file": ("n.npz", ["m.npz", "n.npz", "decoder.yml", "v.spm"], ["v.spm", "v.spm"]),
    "one vocabulary": ("", ["m.npz", "vocab.deen.spm"], ["vocab.deen.spm"] * 2),
    "two vocabularies": ("", ["m.npz", "trgvocab.spm", "srcvocab.spm"], ["srcvocab.spm", "trgvoc"]),
    "those of OPUS-MT": ("", ["m.npz", "target.spm", "source.spm"], ["source.spm", "target.spm"]),
}


@pytest.mark.parametrize("case", FILES)
def test_files(tmp_path, case):
    path, names, vocabularies = FILES[case]
    for name in names:
        (tmp_path / name).write_text(NAMED if name.endswith("decoder.yml") else "")
    files = find_files(tmp_path / path)
    assert files.model.name == (path or "m.npz")
    assert {file.parent for file in files[:3]} == {tmp_path}
    for file, expected in zip(files[1:3], vocabularies, strict=True):
        assert file.name.startswith(expected)
