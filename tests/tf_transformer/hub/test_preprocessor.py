"""The preprocessor makes the batches that training makes."""

import keras_hub
import numpy as np
import pytest
import tensorflow as tf

from tests.tf_transformer.hub.tasks import SOURCES, TARGETS, make_task
from tests.tf_transformer.storage.test_model_dir import SOURCE_MODEL, TARGET_MODEL
from tf_transformer import Tokenizer
from tf_transformer.hub import TransformerSeq2SeqLMPreprocessor, TransformerTokenizer
from tf_transformer.text.text_file import TextFile
from training.config import DataConfig
from training.data.pipeline import ParallelText

PAIRS = {"encoder_text": SOURCES, "decoder_text": TARGETS}
SOURCE_IDS, TARGET_IDS = (
    Tokenizer(model).tokenize(tf.constant(texts)).to_list()
    for model, texts in ((SOURCE_MODEL, SOURCES), (TARGET_MODEL, TARGETS))
)


def make_preprocessor(**arguments) -> TransformerSeq2SeqLMPreprocessor:
    return TransformerSeq2SeqLMPreprocessor(
        TransformerTokenizer(SOURCE_MODEL),
        TransformerTokenizer(TARGET_MODEL, config_file="target_tokenizer.json"),
        **arguments,
    )


@pytest.fixture(scope="module")
def preprocessor():
    return make_preprocessor()


def padded(rows, length=None):
    length = length or max(map(len, rows))
    return np.array([row + [0] * (length - len(row)) for row in rows])


@pytest.mark.slow
def test_batches_are_those_of_training(preprocessor, tmp_path):
    files = []
    for name, texts in (("source", SOURCES), ("target", TARGETS)):
        (tmp_path / name).write_text("\n".join(texts) + "\n")
        files.append(TextFile.parse(str(tmp_path / name)))
    corpus = ParallelText(
        *files,
        Tokenizer(SOURCE_MODEL),
        Tokenizer(TARGET_MODEL),
        DataConfig(batch_sentences=4, max_length=1000),
    )
    seen = 0
    for expected, labels in corpus.batches():
        texts = [
            SOURCES[SOURCE_IDS.index([i for i in row if i > 3])]
            for row in expected["source"].numpy().tolist()
        ]
        pairs = {
            "encoder_text": texts,
            "decoder_text": [TARGETS[SOURCES.index(text)] for text in texts],
        }
        inputs, found, weights = preprocessor(pairs)
        for side, name in (("encoder", "source"), ("decoder", "target")):
            ids = expected[name].numpy()
            np.testing.assert_array_equal(inputs[f"{side}_token_ids"], ids)
            np.testing.assert_array_equal(inputs[f"{side}_padding_mask"], ids != 0)
        np.testing.assert_array_equal(found, labels)
        np.testing.assert_array_equal(weights, labels.numpy() != 0)
        seen += len(texts)
    assert seen == len(SOURCES)


@pytest.mark.slow
def test_any_form_of_pairs(preprocessor):
    expected = preprocessor(PAIRS)
    tensors = {name: tf.constant(texts) for name, texts in PAIRS.items()}
    dataset = tf.data.Dataset.from_tensor_slices((SOURCES, TARGETS)).batch(4).map(preprocessor)
    for found in (
        preprocessor(tensors),
        preprocessor(SOURCES, TARGETS),
        preprocessor((SOURCES, TARGETS)),
        preprocessor(np.array(SOURCES), y=np.array(TARGETS)),
        next(iter(dataset)),
    ):
        tf.nest.map_structure(np.testing.assert_array_equal, found, expected)
    inputs, labels, weights = preprocessor(SOURCES[0], TARGETS[0])
    assert inputs["encoder_token_ids"].numpy().tolist() == [*SOURCE_IDS[0], 3]
    assert inputs["decoder_token_ids"].numpy().tolist() == [2, *TARGET_IDS[0]]
    assert labels.numpy().tolist() == [*TARGET_IDS[0], 3]
    assert weights.numpy().tolist() == [1.0] * len(labels)


def test_long_sentences_are_truncated():
    inputs, labels, _ = make_preprocessor(encoder_sequence_length=4, decoder_sequence_length=5)(
        PAIRS
    )
    sources = padded([[*row[:3], 3] for row in SOURCE_IDS])
    np.testing.assert_array_equal(inputs["encoder_token_ids"], sources)
    np.testing.assert_array_equal(
        inputs["decoder_token_ids"], padded([[2, *row[:4]] for row in TARGET_IDS])
    )
    np.testing.assert_array_equal(labels, padded([[*row[:4], 3] for row in TARGET_IDS]))


def test_padding_to_fixed_lengths():
    preprocessor = make_preprocessor(
        encoder_sequence_length=30, decoder_sequence_length=40, pad_to_longest=False
    )
    batch = tf.data.Dataset.from_tensors(PAIRS).map(preprocessor)
    inputs, labels, weights = batch.element_spec
    assert inputs["encoder_token_ids"].shape == (4, 30)
    assert inputs["decoder_padding_mask"].shape == labels.shape == weights.shape == (4, 40)
    inputs, labels, _ = preprocessor(PAIRS)
    np.testing.assert_array_equal(
        inputs["encoder_token_ids"], padded([[*row, 3] for row in SOURCE_IDS], 30)
    )
    np.testing.assert_array_equal(labels, padded([[*row, 3] for row in TARGET_IDS], 40))


def test_weights_of_pairs(preprocessor):
    given = [0.5, 2.0, 0.0, 1.0]
    _, labels, weights = preprocessor(SOURCES, TARGETS, given)
    expected = (labels.numpy() != 0) * np.array(given)[:, None]
    np.testing.assert_allclose(weights, expected)


def test_generation_and_back(preprocessor):
    inputs = preprocessor.generate_preprocess({"encoder_text": SOURCES, "decoder_text": TARGETS})
    np.testing.assert_array_equal(
        inputs["encoder_token_ids"], padded([[*r, 3] for r in SOURCE_IDS])
    )
    np.testing.assert_array_equal(
        inputs["decoder_token_ids"], padded([[2, *r] for r in TARGET_IDS])
    )
    assert preprocessor.generate_postprocess(inputs) == TARGETS
    empty = preprocessor.generate_preprocess(SOURCES)
    assert empty["decoder_token_ids"].numpy().tolist() == [[2]] * 4
    assert preprocessor.generate_postprocess(empty) == [""] * 4


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"encoder_sequence_length": 1}, "must be an integer of at least 2. Rec.*_length=1"),
        ({"decoder_sequence_length": None}, "`decoder_sequence_length` must be an integer"),
    ],
)
def test_invalid_lengths(arguments, message):
    with pytest.raises(ValueError, match=message):
        make_preprocessor(**arguments)


def test_missing_texts(preprocessor):
    with pytest.raises(ValueError, match=r"keys encoder_text and decoder_text. Received: \['enc"):
        preprocessor({"encoder_text": SOURCES})
    with pytest.raises(ValueError, match=r"`y` must be the targets .* Received: y=None"):
        preprocessor(SOURCES)


def test_two_tokenizers_need_two_names():
    tokenizer = TransformerTokenizer(SOURCE_MODEL)
    joint = TransformerSeq2SeqLMPreprocessor(tokenizer)
    assert joint.target_tokenizer is tokenizer
    with pytest.raises(ValueError, match=r"must be made with config_file='target_tokenizer.json'"):
        TransformerSeq2SeqLMPreprocessor(tokenizer, TransformerTokenizer(TARGET_MODEL))


@pytest.mark.slow
def test_presets(tmp_path):
    task = make_task(max_length=23)
    task.preprocessor.pad_to_longest = False
    task.save_to_preset(tmp_path)
    expected = task.preprocessor(PAIRS)
    for loaded_by in (
        TransformerSeq2SeqLMPreprocessor,
        keras_hub.models.Seq2SeqLMPreprocessor,
    ):
        loaded = loaded_by.from_preset(str(tmp_path))
        tf.nest.map_structure(np.testing.assert_array_equal, loaded(PAIRS), expected)
        assert loaded.get_config() == task.preprocessor.get_config()
    (tmp_path / "preprocessor.json").write_text('{"registered_name": "x", "config": {}}')
    with pytest.raises(ValueError, match=r"preprocessor.json: expected .*Preprocessor, got 'x'"):
        TransformerSeq2SeqLMPreprocessor.from_preset(tmp_path)


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"tokenizer": {"registered_name": "Lambda", "config": {}}}, "description of a tf_transf"),
        ({"tokenizer": ["x"]}, "expected the description of a tf_transformer>TransformerTokenizer"),
        ({"packer": 3}, "unknown setting: 'packer'"),
    ],
)
def test_descriptions_that_are_refused(preprocessor, config, message):
    """Keras itself would make what a description names."""
    with pytest.raises(ValueError, match=message):
        TransformerSeq2SeqLMPreprocessor.from_config(preprocessor.get_config() | config)
