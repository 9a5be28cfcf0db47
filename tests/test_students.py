"""Presets for fast decoding: trained on a teacher's translations, exported, and given to Marian."""

import itertools
import pathlib

import keras
import numpy as np
import pytest
import tensorflow as tf

from export.saved_model.signature_names import SIGNATURES
from tests.conftest import SMALL_SETTINGS
from tests.stepping import step_by_step
from tests.tf_transformer.formats.marian.marian_files import SETTINGS, marian_arrays, read_npz
from tf_transformer import Transformer, TransformerConfig, Translator
from tf_transformer.__main__ import main
from tf_transformer.decoding.incremental_decoder import IncrementalDecoder
from tf_transformer.formats.writers.marian_writer import check_convertible
from tf_transformer.presets import PRESETS
from tf_transformer.storage.json_files import read_json
from tf_transformer.storage.model_dir import load_for_decoding, load_model, read_config
from tf_transformer.text.framing import end_and_pad, prepend_begin

# Two layers of the encoder are as good as the 6 or 12 of the presets, which take longer to trace.
SIZES = {"model.d_model": 32, "model.d_ff": 64, "model.num_heads": 2, "model.num_encoder_layers": 2}
# What is not the model's comes from the other small models, except the vocabulary.
TRAINING = {
    name: value
    for name, value in SMALL_SETTINGS.items()
    if not name.startswith(("model.", "vocabulary."))
}
STEPS = 15
NUM_PAIRS = 60


def test_marian_can_hold_a_student():
    config = TransformerConfig.preset("student", source_vocab_size=50, target_vocab_size=50)
    check_convertible(config)
    assert config.tied_embeddings == "all"


@pytest.mark.slow
@pytest.mark.parametrize("name", ["student", "shallow"])
def test_positions_of_a_new_encoder_differ(name):
    """Each layer averages over positions; without scaled weights, post-norm makes them equal."""
    spreads = []
    for scaled in (True, False):
        keras.utils.set_random_seed(1)
        settings = dict(d_model=64, d_ff=128, num_heads=4, depth_scaled_initialization=scaled)
        sizes = dict(source_vocab_size=200, target_vocab_size=200)
        model = Transformer(TransformerConfig.preset(name, **(sizes | settings)))
        source = np.random.default_rng(1).integers(4, 200, (2, 12))
        spreads.append(np.std(np.asarray(model.encode(source)), axis=1).mean())
    assert spreads[0] > 0.4 > 0.2 > spreads[1]
    assert TransformerConfig.preset(name, **sizes).depth_scaled_initialization


@pytest.fixture(scope="module", params=["student", "shallow"])
def student(request, corpus, talkative, tmp_path_factory):
    """The name of a preset, and a model trained with a command of docs/students.md.

    On the corpus in place of a teacher's translations, which make no difference here.
    """
    folder = tmp_path_factory.mktemp(request.param)
    options = list(corpus.options)
    for index in (1, 3):  # the source and the target
        with open(options[index], encoding="utf-8") as lines:
            first = "".join(itertools.islice(lines, NUM_PAIRS))
        options[index] = str(folder / pathlib.Path(options[index]).name)
        pathlib.Path(options[index]).write_text(first, encoding="utf-8")
    settings = SIZES | TRAINING | {"optimization.checkpoint_every": STEPS // 3}
    command = ["train", "--preset", request.param, "--vocabulary", str(talkative), *options]
    command += ["--model-dir", str(folder / "model"), "--steps", str(STEPS), "--set"]
    assert main([*command, *(f"{name}={value}" for name, value in settings.items())]) == 0
    return request.param, folder / "model"


@pytest.fixture(scope="module")
def sentences(corpus):
    return corpus.directory.joinpath("test.en").read_text(encoding="utf-8").splitlines()[:8]


@pytest.mark.representatives("student")
@pytest.mark.slow
def test_training_learns(student, talkative):
    name, model_dir = student
    config = read_config(model_dir)
    for setting, value in PRESETS[name].items():
        assert f"model.{setting}" in SIZES or getattr(config, setting) == value
    assert (model_dir / "source.spm").read_bytes() == (talkative / "source.spm").read_bytes()
    losses = [score["loss"] for score in read_json(model_dir / "validation_scores.json")["scores"]]
    assert len(losses) == 3
    assert losses == sorted(losses, reverse=True)
    assert losses[-1] < losses[0] < np.log(400) + 0.5


@pytest.mark.representatives("student-float32")
@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int8"])
def test_steps_are_all_positions_at_once(student, sentences, dtype, monkeypatch):
    """The steps of the model as decoding loads it, against all positions in float32."""
    _, model_dir = student
    model, source_tokenizer, target_tokenizer = load_model(model_dir)
    source = end_and_pad(source_tokenizer.tokenize(tf.constant(sentences)))
    target = prepend_begin(target_tokenizer.tokenize(tf.constant(sentences)).to_tensor(0))
    logits = model({"source": source, "target": target}).numpy()
    # A cache with space for all steps, since there is no search that compacts it.
    monkeypatch.setattr(IncrementalDecoder, "compaction_interval", target.shape[1])
    prepared, *_ = load_for_decoding(model_dir, dtype)
    stepped = step_by_step(prepared, source, target.numpy())[:, 0]
    real = target.numpy() != 0
    error = np.linalg.norm((stepped - logits)[real]) / np.linalg.norm(logits[real])
    assert error < (1e-5 if dtype == "float32" else 0.05)


@pytest.mark.exhaustive  # tests/test_ensembles.py exports a recurrent decoder in int8
@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int8"])
def test_export(student, sentences, tmp_path, dtype):
    """`export` compares each of the signatures with the model, in a process of its own."""
    name, model_dir = student
    # Once all of a recurrent decoder's.
    is_whole = (name, dtype) == ("student", "float32")
    signatures = SIGNATURES if is_whole else ("serving_default",)
    command = ["export", "--model-dir", str(model_dir), "--output", str(tmp_path / "served")]
    command += ["--dtype", dtype, "--beam-size", "2", "--languages", "en-de"]
    assert main([*command, "--signatures", *signatures]) == 0
    served = tf.saved_model.load(tmp_path / "served" / "1")
    assert set(served.signatures) == set(signatures)
    answer = served.signatures["serving_default"](tf.constant(sentences))
    expected = Translator.load(model_dir, dtype=dtype, beam_size=2).n_best(sentences)
    assert [x.decode() for x in answer["translation"].numpy()] == [x[0].text for x in expected]
    np.testing.assert_allclose(answer["score"], [x[0].score for x in expected], rtol=1e-3)


@pytest.mark.exhaustive  # tests/tf_transformer/formats/marian/test_round_trip.py has it all
@pytest.mark.slow
def test_convert_to_marian(student, sentences, tmp_path, capsys):
    """A student comes back with the same translations; the other preset is refused."""
    name, model_dir = student
    command = ["convert", "--model-dir", str(model_dir), "--to", "marian"]
    if name == "shallow":
        assert main([*command, "--output", str(tmp_path / "theirs")]) == 2
        assert "cannot hold a model with positions='interleaved'" in capsys.readouterr().err
        return
    assert main([*command, "--output", str(tmp_path / "theirs")]) == 0
    arrays = read_npz(tmp_path / "theirs" / "model.npz")
    del arrays[SETTINGS]
    expected = marian_arrays(load_model(model_dir)[0])
    assert arrays.keys() == expected.keys()
    for array_name, array in arrays.items():
        np.testing.assert_array_equal(array, expected[array_name])
    command = ["import", "--input", str(tmp_path / "theirs"), "--model-dir", str(tmp_path / "back")]
    assert main(command) == 0
    # Greedy search: the softmax of what comes back is without the pad and begin ids.
    paths = (model_dir, tmp_path / "back")
    translations = [Translator.load(path, beam_size=1)(sentences) for path in paths]
    assert translations[0] == translations[1]
