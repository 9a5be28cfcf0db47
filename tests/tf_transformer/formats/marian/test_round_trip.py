"""Model directories to Marian's format and back; the arrays are compared with a list by hand."""

import numpy as np
import pytest
import yaml

from tests.tf_transformer.formats.marian.marian_files import (
    HELD,
    SETTINGS,
    marian_arrays,
    read_npz,
    write_npz,
)
from tests.tf_transformer.formats.random_model import (
    STUDENT,
    read_all,
    train_vocabularies,
    write_random_model,
)
from tf_transformer import load_model
from tf_transformer.__main__ import main
from tf_transformer.formats.convert_model import convert_model
from tf_transformer.formats.import_model import import_model
from tf_transformer.formats.marian.reader import Marian
from tf_transformer.formats.sentencepiece_ids import with_ids
from tf_transformer.storage.weight_shapes import weight_shapes
from tf_transformer.storage.weights_file import read_arrays
from tf_transformer.text.vocabulary import Vocabulary

SSRU = dict(decoder_autoregression="ssru")
CASES = {
    "base": (True, dict(activation="swish")),
    "student": (True, STUDENT | dict(decoder=dict(d_ff=24))),
    "pre-norm student": (False, SSRU | dict(norm_position="pre")),
    "untied": (False, dict(tied_embeddings="none", final_norm=True)),
    "inputs": (True, dict(tied_embeddings="inputs")),
    "target": (False, dict(num_encoder_layers=1)),
}


def parameters(names, **options):
    return pytest.mark.parametrize("folder", names, indirect=True, **options)


@pytest.fixture(scope="module")
def folder(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("marian")
    joint, settings = CASES[request.param]
    write_random_model(folder / "ours", train_vocabularies(joint), **(HELD | settings))
    convert_model(folder / "ours", "marian", folder / "theirs")
    return folder


def weights_of(model_dir, config):
    return dict(read_arrays(model_dir / "model.weights.h5", weight_shapes(config)))


@pytest.mark.slow
@parameters(CASES)
def test_arrays(folder):
    """Also their shapes and that they are in C order."""
    arrays = read_npz(folder / "theirs" / "model.npz")
    settings = arrays.pop(SETTINGS)
    assert settings.dtype == np.int8 and settings[-1] == 0
    assert yaml.safe_load(settings.tobytes()[:-1])["type"] == "transformer"
    expected = marian_arrays(load_model(folder / "ours")[0])
    assert arrays.keys() == expected.keys() and len(arrays) > 60
    for name, array in arrays.items():
        np.testing.assert_array_equal(array, expected[name])
        assert array.flags.c_contiguous and array.dtype == np.float32


@pytest.mark.slow
@parameters(CASES)
def test_back(folder):
    """Equal weights except rows of the pad and begin id, and equal SentencePiece models."""
    imported = Marian().read(folder / "theirs")
    model, source, target = load_model(folder / "ours")
    for name in (
        "source_vocab_size",
        "target_vocab_size",
        "num_encoder_layers",
        "d_ff",
        "num_heads",
    ):
        assert getattr(imported.config, name) == getattr(model.config, name)
    for side in ("encoder", "decoder"):
        assert imported.config.side(side) == model.config.side(side)
    assert imported.config.tied_embeddings == model.config.tied_embeddings
    assert (imported.source_model, imported.target_model) == (source.model, target.model)
    expected = weights_of(folder / "ours", model.config)
    found = dict(imported.weights)
    assert found.keys() == expected.keys()
    for name, array in found.items():
        if name in ("source_embedding/embeddings", "target_embedding/embeddings"):
            expected[name][[0, 2]] = 0
        elif name in ("logits_bias", "logits_projection/bias"):
            expected[name][[0, 2]] = -100
        elif name == "logits_projection/kernel":
            expected[name][:, [0, 2]] = 0
        np.testing.assert_array_equal(array, expected[name])


@pytest.mark.representatives("student")
@pytest.mark.slow
@parameters(["student", "untied"])
def test_what_came_from_marian_is_equal(untranslated, folder, tmp_path):
    """Files byte by byte: those of Marian's format, and those of the model directory."""
    import_model(folder / "theirs" / "model.npz", tmp_path / "ours")
    convert_model(tmp_path / "ours", "marian", tmp_path / "theirs")
    assert read_all(tmp_path / "theirs") == read_all(folder / "theirs")
    import_model(tmp_path / "theirs", tmp_path / "again")
    assert read_all(tmp_path / "again") == read_all(tmp_path / "ours")


@pytest.mark.slow
def test_logits_without_bias(tmp_path):
    """Zeros are written; `output-omit-bias` is read."""
    settings = HELD | dict(logits_bias=False)
    write_random_model(tmp_path / "ours", train_vocabularies(True), **settings)
    convert_model(tmp_path / "ours", "marian", tmp_path / "theirs")
    path = tmp_path / "theirs" / "model.npz"
    arrays = read_npz(path)
    assert not arrays.pop("decoder_ff_logit_out_b").any()
    text = arrays[SETTINGS].tobytes()[:-1] + b"output-omit-bias: true\n\0"
    write_npz(path, arrays | {SETTINGS: np.frombuffer(text, np.int8)})
    bias = dict(Marian().read(tmp_path / "theirs").weights)["logits_bias"]
    np.testing.assert_array_equal(bias, [-100, 0, -100] + [0] * (len(bias) - 3))


def test_other_forms_of_the_file(tmp_path):
    """Matrices of logits that are not transposed, float16, scales of activations."""
    settings = HELD | dict(tied_embeddings="none")
    write_random_model(tmp_path / "ours", train_vocabularies(True), **settings)
    convert_model(tmp_path / "ours", "marian", tmp_path / "theirs")
    path = tmp_path / "theirs" / "model.npz"
    arrays = read_npz(path)
    expected = dict(Marian().read(path).weights)
    arrays["decoder_ff_logit_out_W"] = arrays.pop("decoder_ff_logit_out_Wt").T
    arrays["encoder_l1_self_Wq"] = arrays["encoder_l1_self_Wq"].astype(np.float16)
    arrays["encoder_l1_self_Wq_QuantMultA"] = np.ones(1, np.float32)
    write_npz(path, arrays)
    found = dict(Marian().read(path).weights)
    assert found.keys() == expected.keys()
    for name, array in found.items():
        atol = 1e-3 if name == "encoder/layer_0/self_attention/query_key_value/kernel" else 0
        np.testing.assert_allclose(array, expected[name], rtol=0, atol=atol)


@pytest.mark.slow
def test_vocabularies_that_are_renumbered(untranslated, tmp_path):
    """As of OPUS-MT: YAML vocabularies, and SentencePiece models for the pieces."""
    models = train_vocabularies(False)
    pieces = [
        *Vocabulary(models[0]).pieces[9:],
        *Vocabulary(models[1]).pieces[4:],
        'a\\"\x85 \u2028:',
    ]
    pieces = list(dict.fromkeys(pieces))
    models = tuple(with_ids(model, pieces) for model in models)
    write_random_model(tmp_path / "ours", models, **HELD)
    changes = convert_model(tmp_path / "ours", "marian", tmp_path / "theirs")
    assert "must be split with source.spm" in changes[-1]
    names = ["</s>", "<unk>", *pieces]
    for side in ("source", "target"):
        text = (tmp_path / "theirs" / f"{side}.yml").read_text()
        assert yaml.safe_load(text) == {name: number for number, name in enumerate(names)}
    import_model(tmp_path / "theirs", tmp_path / "again")
    for name in ("source.spm", "target.spm"):
        assert (tmp_path / "again" / name).read_bytes() == (tmp_path / "ours" / name).read_bytes()
    convert_model(tmp_path / "again", "marian", tmp_path / "twice")
    assert read_all(tmp_path / "twice") == read_all(tmp_path / "theirs")


@pytest.mark.slow
def test_commands(untranslated, tmp_path, capsys):
    write_random_model(tmp_path / "ours", train_vocabularies(True), **HELD)
    words = ["convert", "--model-dir", str(tmp_path / "ours"), "--to", "marian"]
    assert main([*words, "--output", str(tmp_path / "theirs")]) == 0
    assert "converted to the format marian. Marian divides" in capsys.readouterr().out
    for path in ("theirs", "theirs/model.npz"):
        target = tmp_path / f"new-{len(path)}"
        words = ["import", "--input", str(tmp_path / path), "--model-dir", str(target)]
        assert main(words) == 0
        assert "two sentences translated. To translate:" in capsys.readouterr().out


UNSUPPORTED = {
    "positions": dict(positions="marian"),
    "first_position": dict(first_position=1),
    "begin_embedding": dict(begin_embedding="own"),
    "activation": dict(activation="gelu"),
    "encoder.norm_type": dict(norm_type="rms"),
    "relative_positions": dict(relative_positions="keys"),
    "source_end": dict(source_end=False),
    "encoder.layer_history": dict(layer_history=True),
    "encoder.norm_position": dict(encoder=dict(norm_position="pre")),
    "encoder.final_norm": dict(encoder=dict(final_norm=True)),
    "encoder.num_heads": dict(encoder=dict(num_heads=2)),
    "decoder.cross_num_heads": dict(decoder=dict(cross_num_heads=2)),
    "encoder.d_model": dict(encoder=dict(d_model=16), tied_embeddings="target"),
    "layer_norm_epsilon": dict(layer_norm_epsilon=1e-5),
    "norm_position": dict(norm_position="pre"),
}


@pytest.mark.parametrize("setting", UNSUPPORTED)
def test_what_the_format_cannot_hold(tmp_path, setting):
    settings = HELD | UNSUPPORTED[setting]
    write_random_model(tmp_path / "ours", train_vocabularies(True), **settings)
    message = rf"the format marian cannot hold a model with {setting}="
    with pytest.raises(ValueError, match=message) as error:
        convert_model(tmp_path / "ours", "marian", tmp_path / "theirs")
    assert "\n" not in str(error.value)
    assert ("MarianMTModel (OPUS-MT)" in str(error.value)) == (setting == "positions")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["ours"]
