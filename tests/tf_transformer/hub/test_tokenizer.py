"""The tokenizer of KerasHub returns what this project's returns."""

import keras_hub
import numpy as np
import pytest
import tensorflow as tf

from tests.tf_transformer.hub.tasks import SOURCES, TARGETS, make_task
from tests.tf_transformer.storage.test_model_dir import SOURCE_MODEL
from tf_transformer import Tokenizer
from tf_transformer.formats.sentencepiece_ids import with_ids
from tf_transformer.hub import TransformerSeq2SeqLMPreprocessor, TransformerTokenizer


@pytest.fixture
def plain():
    return Tokenizer(SOURCE_MODEL)


@pytest.fixture
def tokenizer():
    return TransformerTokenizer(SOURCE_MODEL)


def test_ids_are_this_project_s(tokenizer, plain):
    expected = plain.tokenize(tf.constant(SOURCES)).to_list()
    assert tokenizer(SOURCES) == expected
    assert tokenizer(np.array(SOURCES)) == expected
    assert tokenizer.tokenize(tf.constant(SOURCES)).to_list() == expected
    assert list(tokenizer(SOURCES[0])) == expected[0]
    batches = tf.data.Dataset.from_tensor_slices(SOURCES).batch(3).map(tokenizer)
    assert [row for batch in batches for row in batch.to_list()] == expected


def test_strings_come_back(tokenizer):
    ids = tokenizer(SOURCES)
    assert tokenizer.detokenize(ids) == SOURCES
    assert tokenizer.detokenize(ids[0]) == SOURCES[0]
    padded = tf.ragged.constant([[2, *row, 3] for row in ids]).to_tensor()
    assert tokenizer.detokenize(padded) == SOURCES
    assert tokenizer.detokenize(padded.numpy()) == SOURCES


def test_vocabulary(tokenizer, plain):
    size = plain.vocab_size
    assert tokenizer.vocabulary_size() == len(tokenizer.get_vocabulary()) == size
    tokens = [tokenizer.id_to_token(token_id) for token_id in range(size)]
    assert tokens == plain.pieces
    assert [tokenizer.token_to_id(token) for token in tokens] == list(range(size))
    assert tokenizer.token_to_id("not there") == tokenizer.unk_token_id == 1
    assert (tokenizer.pad_token_id, tokenizer.start_token_id, tokenizer.end_token_id) == (0, 2, 3)
    assert tokenizer.special_token_ids == [0, 1, 2, 3]
    assert tokenizer.special_tokens == tokens[:4]
    with pytest.raises(ValueError, match=f"`id` must be one of {size} ids. Received: {size}"):
        tokenizer.id_to_token(size)


def test_vocabularies_of_other_toolkits():
    """They have fewer ids than the SentencePiece model has pieces."""
    kept = Tokenizer(SOURCE_MODEL).pieces[4:8]
    model = with_ids(SOURCE_MODEL, kept)
    tokenizer = TransformerTokenizer(model)
    assert tokenizer.get_vocabulary()[4:] == kept
    assert tokenizer.vocabulary_size() == 8
    ids = tokenizer(SOURCES)
    assert ids == Tokenizer(model).tokenize(tf.constant(SOURCES)).to_list()
    assert {token_id for row in ids for token_id in row} == {1, 4, 5, 6, 7}


def test_without_a_vocabulary():
    with pytest.raises(ValueError, match="has no vocabulary: give `proto`, or load"):
        TransformerTokenizer()(["a"])


def test_seeds_can_be_set_later(tokenizer):
    """TensorFlow then clears a cache that owns the SentencePiece models."""
    expected = tokenizer(SOURCES)
    preprocessor = TransformerSeq2SeqLMPreprocessor(tokenizer)
    plain = tokenizer.plain
    tf.random.set_seed(1)
    with pytest.raises(tf.errors.NotFoundError):
        plain.tokenize(tf.constant(SOURCES))
    pairs = tf.data.Dataset.from_tensors((SOURCES, SOURCES))
    _, labels, _ = next(iter(pairs.map(preprocessor)))
    assert [[i for i in row if i > 3] for row in labels.numpy().tolist()] == expected
    tf.random.set_seed(1)
    assert tokenizer(SOURCES) == expected
    assert tokenizer.detokenize(expected) == SOURCES


def test_invalid_arguments():
    with pytest.raises(ValueError, match="Not a SentencePiece model"):
        TransformerTokenizer(b"x")
    with pytest.raises(ValueError, match=r"`config_file` must be .*Received: config_file='../../a"):
        TransformerTokenizer(config_file="../../a.json")


@pytest.mark.slow
def test_presets(tmp_path):
    task = make_task()
    task.save_to_preset(tmp_path)
    for loaded_by in (TransformerTokenizer, keras_hub.tokenizers.Tokenizer):
        source = loaded_by.from_preset(str(tmp_path))
        assert source(SOURCES) == task.preprocessor.tokenizer(SOURCES)
        target = loaded_by.from_preset(str(tmp_path), config_file="target_tokenizer.json")
        assert target(TARGETS) == task.preprocessor.target_tokenizer(TARGETS)
        assert target.vocabulary_size() == task.backbone.transformer.config.target_vocab_size
    (tmp_path / "tokenizer.json").write_text('{"registered_name": "x", "config": {}}')
    with pytest.raises(
        ValueError, match=r"tokenizer.json: expected .*TransformerTokenizer, got 'x'"
    ):
        TransformerTokenizer.from_preset(tmp_path)
    task.preprocessor.tokenizer.save_to_preset(tmp_path)
    (tmp_path / "assets" / "tokenizer" / "vocabulary.spm").write_bytes(b"x")
    with pytest.raises(ValueError, match="Not a SentencePiece model"):
        TransformerTokenizer.from_preset(str(tmp_path))
