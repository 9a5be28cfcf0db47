"""Converted model directories in LiteRT: the same logits and greedy translations.

Run by LiteRT's interpreter if the extra `parity` is installed, else by TensorFlow's.
"""

import json
import os
import re

import numpy as np
import pytest
import sentencepiece

from tests.tf_transformer.formats.random_model import (
    SOURCES,
    read_all,
    train_vocabularies,
    write_random_model,
)
from tf_transformer import TransformerConfig, Translator, load_model
from tf_transformer.errors import InputError
from tf_transformer.formats import convert_model as conversion
from tf_transformer.formats.convert_model import convert_model
from tf_transformer.formats.sentencepiece_ids import with_ids
from tf_transformer.formats.writers import litert_sample
from tf_transformer.formats.writers.litert_sample import (
    first_caches,
    open_interpreter,
    step_logits,
)
from tf_transformer.formats.writers.litert_writer import check_convertible
from tf_transformer.text.special_ids import NUM_SPECIAL
from tf_transformer.text.vocabulary import Vocabulary

pytestmark = pytest.mark.slow
ONE_LAYER = dict(num_encoder_layers=1, num_decoder_layers=1)
CHOSEN = pytest.mark.representatives("student", "unequal sides, relative keys and values")

CASES = {
    "the paper": (True, dict()),
    "pre-norm": (False, dict(norm_position="pre", positions="concatenated", first_position=2)),
    "Marian": (True, dict(positions="marian", activation="swish", begin_embedding="zero")),
    "student": (
        True,
        dict(positions="concatenated", decoder_autoregression="ssru", begin_embedding="zero"),
    ),
    "fairseq": (
        True,
        dict(
            positions="learned",
            activation="gelu",
            begin_embedding="end",
            embedding_norm=True,
            scaled_embeddings=False,
        ),
    ),
    "OpenNMT": (
        False,
        dict(source_end=False, positions="none", relative_positions="keys", activation="geglu"),
    ),
    "relative keys and values": (
        False,
        dict(relative_positions="keys_values", max_relative_distance=3, activation="swiglu"),
    ),
    "RMS norms": (
        True,
        dict(
            norm_type="rms",
            norm_position="pre",
            activation="geglu_tanh",
            dense_bias=False,
            relative_positions="buckets",
            positions="none",
            head_dim=5,
        ),
    ),
    "L1 norms": (True, dict(norm_type="l1", tied_embeddings="inputs", activation="glu")),
    "the Annotated Transformer": (False, dict(norm_type="sample_std", norm_position="pre")),
    "layer history": (True, dict(layer_history=True)),
    "pre-norm layer history": (True, dict(layer_history=True, norm_position="pre")),
    "unequal sides": (
        False,
        dict(
            tied_embeddings="none",
            encoder=dict(d_model=24, num_heads=2, d_ff=24, norm_position="pre"),
            decoder=dict(cross_num_heads=8),
            num_encoder_layers=1,
        ),
    ),
}
CASES["unequal sides, relative keys and values"] = (
    False,
    CASES["unequal sides"][1] | CASES["relative keys and values"][1],
)


class Both:
    """A model directory, loaded, and the same in LiteRT."""

    def __init__(self, folder, models, **settings):
        settings = dict(max_length=40) | settings | dict(logits_bias=True, end_bias=1.0)
        write_random_model(folder / "ours", models, spread=0.25, **settings)
        self.changes = convert_model(folder / "ours", "litert", folder / "theirs")
        self.folder = folder / "theirs"
        self.model, self.source, self.target = load_model(folder / "ours")
        self.interpreter = open_interpreter(self.folder / "model.tflite")

    def greedy(self, text):
        """The ids of a translation, without the begin id, by the rules of model.json alone."""
        about = json.loads((self.folder / "model.json").read_text(encoding="utf-8"))
        processors = [
            sentencepiece.SentencePieceProcessor(
                model_file=str(self.folder / about["vocabularies"][side]["file"])
            )
            for side in ("source", "target")
        ]
        special, longest = about["special_ids"], about["max_tokens"]
        ids = processors[0].encode(text)[:longest]
        limit = min(int(1.5 * len(ids)) + 20, longest)
        encode, step = map(self.interpreter.get_signature_runner, ("encode", "decode_step"))
        memory = encode(source=np.array([[*ids, special["end"]]], "int32"))
        state = {
            name: np.zeros([limit if x == "target_length" else x for x in shape], "float32")
            for name, shape in about["caches"].items()
        }
        found = [special["begin"]]
        while len(found) <= limit and found[-1] != special["end"]:
            token, position = np.array(found[-1:], "int32"), np.array([len(found) - 1], "int32")
            state = step(token=token, position=position, **memory, **state)
            logits = state.pop("logits")[0]
            logits[about["suppressed_ids"]] = -np.inf
            found.append(int(logits.argmax()))
        return processors[1].decode(found[1:])


@pytest.fixture(scope="module", params=CASES)
def both(request, tmp_path_factory):
    joint, settings = CASES[request.param]
    return Both(tmp_path_factory.mktemp("litert"), train_vocabularies(joint), **settings)


@CHOSEN
def test_logits(both):
    """Of whole and padded sources, with caches of several lengths."""
    compare_logits(both)


def test_logits_without_begin_id(tmp_path):
    """Of mBART, whose decoder does not see the begin id."""
    (model, _) = train_vocabularies(True)
    tagged = with_ids(model, [*Vocabulary(model).pieces[NUM_SPECIAL:], ">>de<<", ">>en<<"])
    settings = ONE_LAYER | dict(positions="learned", norm_position="pre", embedding_norm=True)
    compare_logits(Both(tmp_path, (tagged, tagged), language_tags="end_and_begin", **settings))


def compare_logits(both):
    random, config = np.random.default_rng(2), both.model.config
    for length, padding, target_length in ((1, 0, 1), (9, 0, 40), (25, 15, 17), (40, 0, 5)):
        source = random.integers(4, config.source_vocab_size, (1, length + padding), "int32")
        source[0, length - 1], source[0, length:] = 3, 0
        target = random.integers(4, config.target_vocab_size, target_length, "int32")
        target[0] = 2
        expected = np.asarray(both.model({"source": source, "target": target[None]}))[0]
        found = step_logits(both.interpreter, config, source, target)
        np.testing.assert_allclose(found, expected, atol=1e-4)
        # and the padding changes nothing
        whole = step_logits(both.interpreter, config, source[:, :length], target)
        np.testing.assert_allclose(whole, expected, atol=1e-4)


@CHOSEN
def test_a_cache_that_is_longer_than_needed(both):
    random, config = np.random.default_rng(3), both.model.config
    source = random.integers(4, config.source_vocab_size, (1, 7), "int32")
    encode, step = map(both.interpreter.get_signature_runner, ("encode", "decode_step"))
    memory, found = encode(source=source), []
    for length in (1, 33):
        first = dict(token=np.array([2], "int32"), position=np.array([0], "int32"))
        found.append(step(**first, **memory, **first_caches(config, length))["logits"])
    np.testing.assert_allclose(*found, atol=1e-4)


@CHOSEN
def test_greedy_translations(both):
    translator = Translator(both.model, both.source, both.target, beam_size=1, length_penalty=0.0)
    ours = [best.text for (best,) in translator.n_best(SOURCES[:80])]
    assert [both.greedy(text) for text in SOURCES[:80]] == ours
    assert len(set(ours)) > 20


@CHOSEN
def test_files(both):
    assert both.changes == []
    assert list(read_all(both.folder)) == ["model.json", "model.tflite", "source.spm", "target.spm"]
    assert (both.folder / "source.spm").read_bytes() == both.source.model
    assert (both.folder / "target.spm").read_bytes() == both.target.model


@CHOSEN
def test_description(both):
    """Names, dtypes and shapes are those of the file."""
    about = json.loads((both.folder / "model.json").read_text(encoding="utf-8"))
    listed = both.interpreter.get_signature_list()
    assert listed.keys() == about["signatures"].keys() == {"encode", "decode_step"}
    for name, signature in about["signatures"].items():
        runner = both.interpreter.get_signature_runner(name)
        details = dict(inputs=runner.get_input_details(), outputs=runner.get_output_details())
        for part, tensors in details.items():
            assert tensors.keys() == signature[part].keys()
            for argument, tensor in tensors.items():
                described = signature[part][argument]
                assert np.dtype(tensor["dtype"]) == described["dtype"]
                if part == "inputs":
                    shape = [-1 if isinstance(x, str) else x for x in described["shape"]]
                    assert tensor["shape_signature"].tolist() == shape
    outputs = about["signatures"]["decode_step"]["outputs"]
    assert about["caches"] == {x: outputs[x]["shape"] for x in outputs if x != "logits"}


@pytest.mark.representatives("int8-0.25")
@pytest.mark.parametrize("dtype, share", [("float32", 1), ("float16", 1 / 2), ("int8", 1 / 4)])
def test_sizes(dtype, share, tmp_path):
    """Both signatures share the weights; encoder, decoder and logits the embeddings.

    In int8, vectors stay float32, and the embeddings are stored again for the logits.
    """
    settings = ONE_LAYER | dict(d_model=256, d_ff=512, max_length=40, norm_position="pre")
    write_random_model(tmp_path / "ours", train_vocabularies(True), spread=0.06, **settings)
    model = load_model(tmp_path / "ours")[0]
    changes = convert_model(tmp_path / "ours", "litert", tmp_path / "theirs", dtype)
    size = (tmp_path / "theirs" / "model.tflite").stat().st_size
    expected = 4 * model.count_params() * share
    assert expected < size < expected + (300_000 if dtype == "int8" else 150_000)
    difference = [float(x) for change in changes for x in re.findall(r"by ([\d.e-]+) of", change)]
    assert len(difference) == (dtype != "float32") and all(0 < x < 0.1 for x in difference)


def test_wrong_logits_leave_nothing(tmp_path, monkeypatch, capfd):
    """Not even the messages of the interpreter, which it writes to standard error."""

    def open_and_report(path):
        os.write(2, b"INFO: Created TensorFlow Lite XNNPACK delegate for CPU.\nanother line\n")
        return open_interpreter(path)

    write_random_model(tmp_path / "ours", train_vocabularies(True), **ONE_LAYER)
    monkeypatch.setattr(litert_sample, "open_interpreter", open_and_report)
    monkeypatch.setattr(litert_sample, "_TOLERANCES", {"float32": -1.0})
    with pytest.raises(InputError, match=r"weights in float32, differ by .* of the largest"):
        convert_model(tmp_path / "ours", "litert", tmp_path / "theirs")
    assert [path.name for path in tmp_path.iterdir()] == ["ours"]
    lines = capfd.readouterr().err.splitlines()
    assert "another line" in lines
    assert not [line for line in lines if line.startswith("INFO")]


def test_too_large():
    config = TransformerConfig(source_vocab_size=2**20, target_vocab_size=2**20, d_model=512)
    with pytest.raises(InputError, match=r"litert cannot hold a model with 2.* bytes of weights"):
        check_convertible(config)


@pytest.mark.parametrize("format_name", ["hf", "marian", "keras-hub", "ctranslate2"])
def test_formats_without_dtypes(format_name, tmp_path):
    with pytest.raises(InputError, match=f"{format_name} has weights in float32. Received: dtype="):
        conversion.convert_model(tmp_path, format_name, tmp_path / "new", "int8")
