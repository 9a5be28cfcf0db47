"""SentencePiece models in the order of another vocabulary, against SentencePiece and a dict."""

import itertools
import re

import pytest
import sentencepiece
import tensorflow as tf

from tests.tf_transformer.formats.random_model import SOURCES, TARGETS, train_vocabularies
from tf_transformer.formats.sentencepiece_ids import with_ids
from tf_transformer.text.tokenizer import Tokenizer
from tf_transformer.text.vocabulary import OUTSIDE, Vocabulary

# Unknown to the source: single and in sequence, between known characters, and pieces of the target.
ODD = ["ß", "ßß", "xßy", "Zoë 你好, 世", "你 好", "你好", "  a\tb ", "", " ", "</s> <unk>", OUTSIDE]
FOREIGN = ["你", "你好", "▁你"]


@pytest.fixture(scope="module", params=["unigram", "bpe"])
def kind(request):
    return request.param


@pytest.fixture(scope="module")
def models(kind):
    return train_vocabularies(False, kind)


def renumbered(model, pieces):
    """The new model, and what it must do: SentencePiece's pieces, looked up in the vocabulary."""
    original = sentencepiece.SentencePieceProcessor(model_proto=model)
    ids = {piece: number for number, piece in enumerate(pieces, 4)}

    def expected(text):
        return [ids.get(piece, 1) for piece in original.encode(text, out_type=str)]

    return with_ids(model, pieces), expected


def test_ids_are_looked_up(models, kind):
    """Pieces in another order, some missing, some of the other side, in Python and in a graph."""
    source, target = (Vocabulary(model) for model in models)
    pieces = [*reversed(source.pieces[7:]), *target.pieces[4:], *FOREIGN]
    pieces = list(dict.fromkeys(pieces))
    model, expected = renumbered(models[0], pieces)
    vocabulary = Vocabulary(model)
    assert vocabulary.is_renumbered and vocabulary.vocab_size == len(pieces) + 4
    assert vocabulary.pieces[4:] == pieces
    texts = [*SOURCES[:200], *TARGETS[:200], *ODD]
    found = [expected(text) for text in texts]
    if kind == "bpe":  # in sequences of unknown characters, each one has a token
        known = re.escape("".join({*"".join(source.pieces)}))
        is_exact = [not re.search(f"[^{known} ]{{2}}", text) for text in texts]
        assert 300 < sum(is_exact) < len(texts)
        texts = list(itertools.compress(texts, is_exact))
        found = list(itertools.compress(found, is_exact))
    assert any(1 in ids for ids in found)
    foreign = {number for number, piece in enumerate(pieces, 4) if piece not in source.pieces}
    assert any(foreign & set(ids) for ids in found)
    assert vocabulary.encode(texts) == found
    assert Tokenizer(model).tokenize(texts).to_list() == found


def test_texts_of_foreign_pieces(models):
    """A translation may contain pieces that only the other side's model has."""
    pieces = [*Vocabulary(models[1]).pieces[4:], *FOREIGN]
    model = with_ids(models[1], pieces)
    ids = tf.constant([[4 + pieces.index(piece) for piece in ("n", "你好", "▁你", "e")]])
    assert Tokenizer(model).detokenize(ids).numpy()[0].decode() == "n你好 你e"


def test_tags_are_one_token(models):
    pieces = [">>fra<<", *Vocabulary(models[0]).pieces[4:], ">>cmn_Hans<<"]
    model, expected = renumbered(models[0], pieces)
    vocabulary = Vocabulary(model)
    assert vocabulary.languages == [">>fra<<", ">>cmn_Hans<<"]
    assert vocabulary.tag_ids == [4, 3 + len(pieces)]
    for text in SOURCES[:20]:
        assert vocabulary.encode([f">>fra<< {text}"]) == [[4, *expected(text)]]
        assert vocabulary.encode([f">>cmn_Hans<<  {text}"])[0][0] == 3 + len(pieces)


def test_own_vocabularies_are_unchanged(models):
    model = models[0]
    assert with_ids(model, Vocabulary(model).pieces[4:]) == model
    again = with_ids(with_ids(model, Vocabulary(model).pieces[9:]), Vocabulary(model).pieces[9:])
    assert again == with_ids(model, Vocabulary(model).pieces[9:])


def test_names_of_special_pieces_may_be_pieces(models):
    pieces = ["<s>", "<pad>", *Vocabulary(models[0]).pieces[4:]]
    vocabulary = Vocabulary(with_ids(models[0], pieces))
    assert vocabulary.pieces[:6] == ["<<pad>>", "<unk>", "<<s>>", "</s>", "<s>", "<pad>"]


@pytest.mark.parametrize("pieces", [["a", "b", "a"], ["a", ""], [OUTSIDE]])
def test_faulty_vocabularies(models, pieces):
    with pytest.raises(ValueError, match=r"must be different and not empty\. Received: '"):
        with_ids(models[0], pieces)


def test_no_model():
    with pytest.raises(ValueError, match="Not a SentencePiece model"):
        with_ids(b"\xff\xff", ["a"])
