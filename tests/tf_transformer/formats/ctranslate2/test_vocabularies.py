"""The vocabularies of folders of CTranslate2: whether there are codes of languages, and where."""

import json

import pytest

from tf_transformer.errors import InputError
from tf_transformer.formats.ctranslate2.settings import Tokens
from tf_transformer.formats.ctranslate2.vocabularies import read_tokenizers, read_vocabularies

PIECES = ["<s>", "<pad>", "</s>", "<unk>", "\u2581a", "b"]
CODES = {"NLLB": ["eng_Latn", "deu_Latn"], "M2M100": ["__en__", "__zh-yue__"]}
START_WITH_END = Tokens(decoder_start_token="</s>")


def write(folder, pieces):
    (folder / "shared_vocabulary.json").write_text(json.dumps(pieces))


@pytest.mark.parametrize("kind", CODES)
def test_codes_become_tags(kind, tmp_path):
    write(tmp_path, [*PIECES, *CODES[kind], "<mask>"])
    found = read_vocabularies(tmp_path, START_WITH_END)
    assert (found.has_codes, found.language_tags) == (True, "source_and_target")
    expected = [f">>{code.strip('_')}<<" for code in CODES[kind]]
    assert found.source.pieces == found.target.pieces == ["\u2581a", "b", *expected, "<mask>"]
    assert found.source.rows[:4].tolist() == [1, 3, 0, 2]
    assert found.target.added == ()


def test_small100(tmp_path):
    """Only the name of its program tells."""
    write(tmp_path, [*PIECES, *CODES["M2M100"]])
    (tmp_path / "tokenization_small100.py").write_text("raise AssertionError('never run')")
    assert read_vocabularies(tmp_path, START_WITH_END).language_tags == "source"


def test_pieces_like_codes_of_another_model(tmp_path):
    """Whose decoder starts with a begin id."""
    write(tmp_path, [*PIECES, *CODES["M2M100"]])
    found = read_vocabularies(tmp_path, Tokens())
    assert not found.has_codes and "__en__" in found.source.pieces


def test_no_tokenizer(tmp_path):
    write(tmp_path, [*PIECES, *CODES["NLLB"]])
    with pytest.raises(InputError, match=r"expected sentencepiece\.bpe\.model or tokenizer\.json"):
        read_tokenizers(tmp_path, read_vocabularies(tmp_path, START_WITH_END))
