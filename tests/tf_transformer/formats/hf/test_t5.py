"""Import of T5 without Transformers: what is written, and faults."""

import fnmatch
import json
import math

import numpy as np
import pytest

from tests.tf_transformer.formats.hf.t5_folder import (
    MODEL_NAME,
    NUM_PIECES,
    NUM_ROWS,
    NUM_SENTINELS,
    write_t5,
    write_weights,
)
from tests.tf_transformer.formats.random_model import train_vocabularies, write_random_model
from tf_transformer.errors import InputError
from tf_transformer.formats.convert_model import convert_model
from tf_transformer.formats.import_model import read_model
from tf_transformer.storage.model_dir import WEIGHTS_NAME, read_config
from tf_transformer.storage.weight_shapes import weight_shapes
from tf_transformer.storage.weights_file import read_arrays
from tf_transformer.text.tokenizer import Tokenizer

LOGITS, EMBEDDING = "lm_head.weight", "shared.weight"
QUERY = "encoder.block.0.layer.0.SelfAttention.q.weight"


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "theirs"


def test_weights(folder):
    """Scaled where the computations differ, and otherwise equal."""
    arrays = write_t5(folder)
    imported = read_model(folder)
    weights = dict(imported.weights)
    np.testing.assert_array_equal(
        weights["encoder/layer_0/self_attention/query_key_value/kernel"][:, :12],
        arrays[QUERY].T * np.float32(math.sqrt(6)),
    )
    gate = weights["decoder/layer_0/feed_forward/inner/kernel"][:, :24]
    gate_name = "decoder.block.0.layer.2.DenseReluDense.wi_0.weight"
    np.testing.assert_array_equal(gate, arrays[gate_name].T)
    # pad, unknown, begin, end; the first piece
    rows = [0, 2, 0, 1, 3]
    embedding = weights["target_embedding/embeddings"][:5]
    np.testing.assert_array_equal(embedding, arrays[EMBEDDING][rows])
    kernel = weights["logits_projection/kernel"][:, :5]
    np.testing.assert_array_equal(kernel, arrays[LOGITS][rows].T)
    bias = weights["logits_projection/bias"]
    assert bias[2] < -50 and np.count_nonzero(bias) == 1
    assert not imported.config.scaled_embeddings
    assert imported.notes == (
        "a source begins with the prefix of its task: 'translate English to German: '",
    )


@pytest.mark.parametrize("has_copy", [False, True])
def test_shared_matrix(folder, has_copy):
    """Its logits are scaled, and so its matrix is: token vectors are not."""
    arrays = write_t5(folder, tie_word_embeddings=True)
    arrays.pop(LOGITS)
    if has_copy:
        arrays[LOGITS] = arrays["encoder.embed_tokens.weight"] = arrays[EMBEDDING]
    write_weights(folder, arrays)
    imported = read_model(folder)
    assert (imported.config.tied_embeddings, imported.config.scaled_embeddings) == ("all", True)
    embedding = dict(imported.weights)["target_embedding/embeddings"][4]
    np.testing.assert_allclose(embedding * math.sqrt(16), arrays[EMBEDDING][3], rtol=1e-6)


@pytest.mark.parametrize("is_tied", [False, True])
def test_logits_scaled_apart_from_the_embedding(folder, is_tied):
    """The combinations that no published model has."""
    arrays = write_t5(folder, tie_word_embeddings=not is_tied)
    if is_tied:
        arrays.pop(LOGITS)
        write_weights(folder, arrays)
    imported = read_model(folder)
    weights = dict(imported.weights)
    assert not imported.config.scaled_embeddings
    np.testing.assert_array_equal(weights["target_embedding/embeddings"][4], arrays[EMBEDDING][3])
    if not is_tied:
        expected = arrays[LOGITS][3] / math.sqrt(16)
        np.testing.assert_allclose(weights["logits_projection/kernel"][:, 4], expected, rtol=1e-6)


OURS = dict(norm_position="pre", norm_type="rms", positions="none", dense_bias=False)
OURS |= dict(relative_positions="buckets", tied_embeddings="all", scaled_embeddings=False)


def test_one_matrix_whose_logits_are_not_scaled_is_converted(tmp_path):
    """Its copy is written where the logits' matrix is."""
    write_random_model(tmp_path / "ours", train_vocabularies(True), logits_bias=False, **OURS)
    convert_model(tmp_path / "ours", "hf", tmp_path / "theirs")
    imported = read_model(tmp_path / "theirs")
    assert (imported.config.tied_embeddings, imported.config.scaled_embeddings) == ("all", False)
    shapes = weight_shapes(read_config(tmp_path / "ours"))
    expected = dict(read_arrays(tmp_path / "ours" / WEIGHTS_NAME, shapes))
    for name, array in imported.weights:
        if name in expected:
            np.testing.assert_allclose(array, expected[name], rtol=1e-6, err_msg=name)


def test_a_trained_bias_cannot_be_converted(tmp_path):
    """The error names what keeps it out of training."""
    vocabularies = train_vocabularies(True)
    write_random_model(tmp_path / "ours", vocabularies, end_bias=1.0, logits_bias=True, **OURS)
    with pytest.raises(InputError, match=r"or --set .optimization\.frozen=\['(.*)'\]") as error:
        convert_model(tmp_path / "ours", "hf", tmp_path / "theirs")
    pattern = str(error.value).split("'")[1]
    names = weight_shapes(read_config(tmp_path / "ours"))
    assert [name for name in names if fnmatch.fnmatchcase(name, pattern)] == ["logits_bias"]
    assert fnmatch.fnmatchcase("logits_projection/bias", pattern)


def test_sentinels(folder):
    write_t5(folder)
    imported = read_model(folder)
    tokenizer = Tokenizer(imported.source_model)
    ids = tokenizer.tokenize(["a <extra_id_0> b<extra_id_2>"]).to_list()[0]
    # Theirs are NUM_PIECES + 2, 1, 0; here one more, for the begin id.
    assert [i for i in ids if i > NUM_PIECES] == [NUM_PIECES + 3, NUM_PIECES + 1]
    assert imported.config.source_vocab_size == NUM_ROWS + 1


def edit(name, **values):
    def change(folder):
        path = folder / name
        path.write_text(json.dumps(json.loads(path.read_text()) | values))

    return change


FAULTS = {
    "another activation": (
        edit("config.json", feed_forward_proj="gated-tanh"),
        "feed_forward_proj='gated-tanh' is not supported, only relu, gelu",
    ),
    "two widths": (edit("config.json", hidden_size=17), "are the same setting"),
    "padding that is text": (
        edit("config.json", pad_token_id=5),
        r"pad_token_id must be a special id\. Received: 5, which is '",
    ),
    "a start that is text": (
        edit("config.json", decoder_start_token_id=7),
        r"decoder_start_token_id must be a special id\. Received: 7, which is '",
    ),
    "no width": (
        edit("config.json", d_model=0),
        r"config\.json: d_model: Input should be greater.*\. Received: d_model=0",
    ),
    "too few buckets": (
        edit("config.json", relative_attention_num_buckets=3),
        "relative_attention_num_buckets: Input should be greater than or equal to 4",
    ),
    "a switch that is none": (
        edit("config.json", scale_decoder_outputs="x"),
        "scale_decoder_outputs: Input should be a valid boolean",
    ),
    "another type": (
        edit("config.json", model_type="umt5"),
        "model_type='umt5' is not supported, only 't5' or 'mt5'",
    ),
    "no type": (edit("config.json", model_type=None), "model_type=None is not supported"),
    "an end that is the padding": (
        edit("config.json", eos_token_id=0),
        "eos_token_id must be an id of its own. Received: 0, which is '<pad>'",
    ),
    "an added token without a name": (
        edit("tokenizer_config.json", added_tokens_decoder={"120": {"content": ["x"]}}),
        r"expected names and ids of tokens, got 120 for \['x'\]",
    ),
    "no start": (
        edit("config.json", decoder_start_token_id=500),
        r"decoder_start_token_id must be one of the 128 ids. Received: 500",
    ),
    "fewer rows than ids": (
        edit("config.json", vocab_size=NUM_PIECES),
        rf"the tokenizer has {NUM_PIECES + NUM_SENTINELS} ids, and vocab_size={NUM_PIECES}",
    ),
    "many rows without ids": (
        edit("config.json", vocab_size=10**6),
        "expected as many, or some more rows",
    ),
    "another number of rows": (
        edit("config.json", vocab_size=NUM_ROWS - 1),
        rf"shared\.weight must have a row for each of the {NUM_ROWS - 1} entries",
    ),
    "no number of sentinels": (
        edit("tokenizer_config.json", extra_ids="3"),
        r"extra_ids must be the number of sentinels. Received: '3'",
    ),
    "no vocabulary": (lambda folder: (folder / MODEL_NAME).unlink(), MODEL_NAME),
    "a damaged vocabulary": (
        lambda folder: (folder / MODEL_NAME).write_bytes(b"\xff" * 9),
        "Not a SentencePiece model",
    ),
    "an output that must begin with an id": (
        edit("config.json", forced_bos_token_id=7),
        "forced_bos_token_id=7 is not supported",
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_faults(folder, fault):
    write_t5(folder)
    spoil, message = FAULTS[fault]
    spoil(folder)
    with pytest.raises((InputError, FileNotFoundError), match=message):
        read_model(folder, "hf-t5")


@pytest.mark.parametrize("scales", [False, True])
def test_scale_of_the_logits_as_transformers_5_writes_it(folder, scales):
    """It ties the matrices in any case, which says nothing."""
    arrays = write_t5(folder, tie_word_embeddings=True, scale_decoder_outputs=scales)
    kernel = dict(read_model(folder).weights)["logits_projection/kernel"]
    expected = arrays[LOGITS][3] / (math.sqrt(16) if scales else 1)
    np.testing.assert_allclose(kernel[:, 4], expected, rtol=1e-6)


def test_bias_of_every_layer(folder):
    """As in umT5, whose layers do not share it."""
    arrays = write_t5(folder)
    shared = arrays["encoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight"]
    name = "encoder.block.1.layer.0.SelfAttention.relative_attention_bias.weight"
    write_weights(folder, arrays | {name: shared})
    with pytest.raises(InputError, match=f"The model has no weights for {name}"):
        read_model(folder)


def test_the_bias_of_cross_attention_in_old_files(folder):
    """No computation reads it."""
    arrays = write_t5(folder)
    name = "decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight"
    write_weights(folder, arrays | {name: np.zeros((8, 2), "f4")})
    assert len(list(read_model(folder).weights)) > 10
