"""A model directory: what is written is read again, whole or not at all."""

import dataclasses
import json
import os
import re

import keras
import numpy as np
import pytest

from tf_transformer import Completer, Tokenizer, Transformer, TransformerConfig, Translator
from tf_transformer.errors import InputError
from tf_transformer.hub import TransformerSeq2SeqLM
from tf_transformer.storage import weights_file
from tf_transformer.storage.files import replacing
from tf_transformer.storage.model_dir import (
    load_model,
    read_config,
    read_tokenizers,
    write_config_and_tokenizers,
    write_weights,
)
from training.config import VocabularyConfig
from training.data.vocabulary import train_sentencepiece

FILES = ["config.json", "model.weights.h5", "source.spm", "target.spm"]
SIZES = dict(num_encoder_layers=1, num_decoder_layers=1, d_model=8, d_ff=12, num_heads=2)
IDS = {"source": np.array([[5, 6, 3, 0]]), "target": np.array([[2, 7, 8, 9, 10]])}


def train_char_model(text: str) -> bytes:
    settings = VocabularyConfig(kind="char", byte_fallback=False, normalization="identity")
    return train_sentencepiece([text] * 3, settings)


SOURCE_MODEL = train_char_model("a red house")
TARGET_MODEL = train_char_model("ein rotes Haus")


def make_config(**settings) -> TransformerConfig:
    sizes = {
        "source_vocab_size": Tokenizer(SOURCE_MODEL).vocab_size,
        "target_vocab_size": Tokenizer(TARGET_MODEL).vocab_size,
    }
    return TransformerConfig(**(SIZES | sizes | settings))


def make_model(config: TransformerConfig, seed: int = 0) -> Transformer:
    """A model in which no weight has the value that it is made with."""
    rng = np.random.default_rng(seed)
    model = Transformer(config, dtype="float32")
    for variable in model.weights:
        variable.assign(rng.normal(size=variable.shape))
    return model


@pytest.fixture(scope="module")
def model():
    return make_model(make_config())


@pytest.fixture(scope="module")
def contents(model, tmp_path_factory) -> dict[str, bytes]:
    """The files of a sound model directory."""
    directory = tmp_path_factory.mktemp("model")
    write_config_and_tokenizers(directory, model.config, SOURCE_MODEL, TARGET_MODEL)
    write_weights(directory, model)
    return {path.name: path.read_bytes() for path in directory.iterdir()}


@pytest.fixture
def model_dir(contents, tmp_path):
    """A copy to break. Its files are replaced, not overwritten: HDF5 remembers open ones."""
    for name, data in contents.items():
        (tmp_path / name).write_bytes(data)
    return tmp_path


def replace_file(path, data: bytes | str):
    path.unlink()
    path.write_bytes(data if isinstance(data, bytes) else data.encode())


def rewrite_config(model_dir, change):
    path = model_dir / "config.json"
    description = json.loads(path.read_text(encoding="utf-8"))
    change(description)
    replace_file(path, json.dumps(description))


def refuses(path, reason: str):
    return pytest.raises(ValueError, match=f"^{re.escape(str(path))}: {reason}")


# ---- There and back ----


def test_files(contents):
    assert sorted(contents) == FILES
    assert contents["source.spm"] == SOURCE_MODEL
    assert contents["target.spm"] == TARGET_MODEL
    assert contents["config.json"].endswith(b"}\n")


@pytest.mark.slow
def test_a_model_comes_back(model_dir, model):
    loaded, source_tokenizer, target_tokenizer = load_model(model_dir)
    assert loaded.config == model.config
    assert (source_tokenizer.model, target_tokenizer.model) == (SOURCE_MODEL, TARGET_MODEL)
    logits = keras.ops.convert_to_numpy(model(IDS))
    np.testing.assert_array_equal(loaded(IDS), logits)
    assert not np.allclose(make_model(model.config, seed=1)(IDS), logits)


@pytest.mark.slow
@pytest.mark.parametrize(
    "settings",
    [
        dict(tied_embeddings="none", norm_position="pre"),
        dict(
            num_encoder_layers=2,
            dropout_rate=0.3,
            attention_dropout_rate=0.0,
            layer_norm_epsilon=1e-3,
            max_length=17,
        ),
    ],
)
def test_every_setting_comes_back(tmp_path, settings):
    model = make_model(make_config(**settings))
    write_config_and_tokenizers(tmp_path, model.config, SOURCE_MODEL, TARGET_MODEL)
    write_weights(tmp_path, model)
    assert read_config(tmp_path) == model.config
    np.testing.assert_array_equal(load_model(tmp_path)[0](IDS), model(IDS))


@pytest.mark.slow
def test_a_model_in_mixed_precision_comes_back_in_float32(tmp_path, model):
    mixed = Transformer(model.config, dtype="mixed_bfloat16")
    for variable, value in zip(mixed.weights, model.weights, strict=True):
        variable.assign(value)
    write_config_and_tokenizers(tmp_path, model.config, SOURCE_MODEL, TARGET_MODEL)
    write_weights(tmp_path, mixed)
    policy = keras.config.dtype_policy()
    try:
        keras.config.set_dtype_policy("mixed_bfloat16")
        loaded, _, _ = load_model(tmp_path)
    finally:
        keras.config.set_dtype_policy(policy)
    assert loaded.dtype_policy.name == "float32"
    np.testing.assert_array_equal(loaded(IDS), model(IDS))


@pytest.mark.slow
def test_weights_replace_former_ones(model_dir, model):
    other = make_model(model.config, seed=1)
    write_weights(model_dir, other)
    np.testing.assert_array_equal(load_model(model_dir)[0](IDS), other(IDS))
    assert sorted(os.listdir(model_dir)) == FILES


def test_a_model_is_described_before_it_has_weights(tmp_path, model):
    model_dir = tmp_path / "deep" / "model"
    write_config_and_tokenizers(model_dir, model.config, SOURCE_MODEL, TARGET_MODEL)
    assert read_config(model_dir) == model.config
    assert [tokenizer.model for tokenizer in read_tokenizers(model_dir)] == [
        SOURCE_MODEL,
        TARGET_MODEL,
    ]
    message = f"{model_dir}: no model.weights.h5 yet; training has written no checkpoint"
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        load_model(model_dir)


# ---- config.json ----


def test_not_a_model_directory(tmp_path):
    for path in (tmp_path, tmp_path / "nowhere"):
        message = f"{path} is not a model directory: it has no config.json"
        with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
            load_model(path)


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("config.json", "give its folder, {folder}$"),
        ("model.weights.h5", "give its folder, {folder}$"),
        ("best.keras", "load it by `keras.models.load_model`, and write a directory by `save_mod"),
    ],
)
def test_a_file_in_place_of_a_directory(model_dir, name, hint):
    """In everything that loads a model."""
    path = model_dir / name
    path.touch()
    message = f"^{path} is not a model directory but a file; {hint.format(folder=model_dir)}"
    for load in (load_model, read_tokenizers, Translator.load, Completer.load,
                 TransformerSeq2SeqLM.from_model_dir):  # fmt: skip
        with pytest.raises(InputError, match=message):
            load(path)


@pytest.mark.parametrize("path", [None, 3, [], {}])
def test_paths_that_are_none(path):
    with pytest.raises(InputError, match="`model_dir` must be the path of a model directory, or a"):
        Translator.load(path)


@pytest.mark.parametrize("version", [0, 1, 3, "2", None])
def test_another_format_version(model_dir, version):
    rewrite_config(model_dir, lambda description: description.update(format_version=version))
    reason = f"this version reads model directories of format 2, got format {version!r}$"
    with refuses(model_dir / "config.json", reason):
        load_model(model_dir)


@pytest.mark.parametrize("text", ["[]", "3", "null", '"text"'])
def test_config_that_is_no_object(model_dir, text):
    replace_file(model_dir / "config.json", text)
    with refuses(model_dir / "config.json", "expected a JSON object, got (list|int|NoneType|str)$"):
        load_model(model_dir)


def test_a_folder_of_transformers(model_dir):
    replace_file(model_dir / "config.json", '{"model_type": "t5"}')
    reason = f"a folder of Transformers, not a model directory; .* --input {model_dir} .* of it$"
    with refuses(model_dir / "config.json", reason):
        load_model(model_dir)


@pytest.mark.parametrize("text", ["{}", '{"model": {}}'])
def test_no_format_version(model_dir, text):
    replace_file(model_dir / "config.json", text)
    reason = "this version reads model directories of format 2, got format None$"
    with refuses(model_dir / "config.json", reason):
        load_model(model_dir)


@pytest.mark.parametrize("data", [b"", b"{", b'{"format_version": 1', b"PK\x03\x04"])
def test_config_that_is_not_json(model_dir, data):
    replace_file(model_dir / "config.json", data)
    with refuses(model_dir / "config.json", r"not JSON \(.+\)$"):
        load_model(model_dir)


@pytest.mark.parametrize("settings", [None, [], 3])
def test_config_without_settings(model_dir, settings):
    rewrite_config(model_dir, lambda description: description.update(model=settings))
    with refuses(model_dir / "config.json", "expected the model's settings, got "):
        load_model(model_dir)


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"d_modl": 8}, r"unknown setting of the model: 'd_modl'; did you mean 'd_model'\?$"),
        ({"xyzzy": 8}, "unknown setting of the model: 'xyzzy'$"),
        ({"d_model": 7}, r"`num_heads` must divide `d_model`\. Received: num_heads=2, d_model=7$"),
        ({"d_ff": "12"}, r"`d_ff` must be a valid integer\. Received: d_ff='12'$"),
        ({"norm_position": "mid"}, "`norm_position` must be 'post' or 'pre'"),
        ({"layer_norm_epsilon": "small"}, ""),
    ],
)
def test_config_with_wrong_settings(model_dir, settings, reason):
    rewrite_config(model_dir, lambda description: description["model"].update(settings))
    with refuses(model_dir / "config.json", reason):
        load_model(model_dir)


def test_config_that_lacks_a_setting(model_dir):
    rewrite_config(model_dir, lambda description: description["model"].pop("target_vocab_size"))
    with refuses(model_dir / "config.json", ".*'target_vocab_size'"):
        load_model(model_dir)


# ---- Tokenizers ----


@pytest.mark.parametrize("name", ["source.spm", "target.spm"])
def test_missing_tokenizer(model_dir, name):
    (model_dir / name).unlink()
    with refuses(model_dir / name, r"missing or damaged \(.*No such file"):
        load_model(model_dir)


@pytest.mark.parametrize("name", ["source.spm", "target.spm"])
@pytest.mark.parametrize("size", [0, 10, 200, -1])
def test_truncated_tokenizer(model_dir, contents, name, size):
    replace_file(model_dir / name, contents[name][:size])
    with refuses(model_dir / name, r"missing or damaged \(.+\)$"):
        load_model(model_dir)


@pytest.mark.parametrize("side", ["source", "target"])
def test_vocabulary_of_another_size(model_dir, model, side):
    replace_file(model_dir / f"{side}.spm", train_char_model("abcdefghijklmnopqrstuvwxyz"))
    expected = getattr(model.config, f"{side}_vocab_size")
    reason = f"{side}.spm must have {side}_vocab_size={expected} pieces, got 31$"
    with refuses(model_dir, reason):
        load_model(model_dir)


# ---- Weights ----


def test_missing_weights(model_dir):
    (model_dir / "model.weights.h5").unlink()
    with refuses(model_dir, "no model.weights.h5 yet; training has written no checkpoint$"):
        load_model(model_dir)


@pytest.mark.parametrize("share", [0, 0.001, 0.1, 0.5, 0.9, 0.9999])
def test_truncated_weights(model_dir, contents, share):
    data = contents["model.weights.h5"]
    replace_file(model_dir / "model.weights.h5", data[: int(share * len(data))])
    with refuses(model_dir / "model.weights.h5", r"damaged, or of another model \(.+\)$") as raised:
        load_model(model_dir)
    assert "\n" not in str(raised.value)


def test_weights_that_are_no_hdf5_file(model_dir):
    replace_file(model_dir / "model.weights.h5", b"weights " * 1000)
    with refuses(model_dir / "model.weights.h5", r"damaged, or of another model \(.+\)$"):
        load_model(model_dir)


def damage_names(data: bytes) -> bytes:
    """Overwrites the signature of every list of names in an HDF5 file."""
    assert data.count(b"HEAP") > 1
    return data.replace(b"HEAP", b"heap")


def test_weights_damaged_inside(model_dir, contents):
    data = damage_names(contents["model.weights.h5"])
    replace_file(model_dir / "model.weights.h5", data)
    with refuses(model_dir / "model.weights.h5", r"damaged, or of another model \(.+\)$"):
        load_model(model_dir)


@pytest.mark.parametrize(
    "settings",
    [
        dict(d_model=16),
        dict(d_ff=24),
        dict(num_encoder_layers=2),
        dict(num_decoder_layers=2),
        dict(tied_embeddings="none"),
        dict(norm_position="pre"),
    ],
)
def test_weights_of_another_model(model_dir, settings):
    rewrite_config(model_dir, lambda description: description["model"].update(settings))
    with refuses(model_dir / "model.weights.h5", r"damaged, or of another model \(.+\)$"):
        load_model(model_dir)


# ---- Files appear whole ----


def test_replacing_writes_a_file(tmp_path):
    path = tmp_path / "file.txt"
    with replacing(path) as temporary:
        assert temporary.parent == tmp_path  # so that renaming it is atomic
        assert temporary != path
        temporary.write_text("new")
        assert not path.exists()
    assert path.read_text() == "new"
    assert os.listdir(tmp_path) == ["file.txt"]


def test_replacing_replaces_a_file(tmp_path):
    path = tmp_path / "file.txt"
    path.write_text("old")
    with replacing(path) as temporary:
        temporary.write_text("new")
        assert path.read_text() == "old"
    assert path.read_text() == "new"
    assert os.listdir(tmp_path) == ["file.txt"]


@pytest.mark.parametrize("error", [ValueError, OSError, KeyboardInterrupt, SystemExit])
@pytest.mark.parametrize("has_begun", [True, False])
@pytest.mark.parametrize("exists", [True, False])
def test_replacing_keeps_the_old_file_when_writing_fails(tmp_path, error, has_begun, exists):
    path = tmp_path / "file.txt"
    if exists:
        path.write_text("old")
    with pytest.raises(error), replacing(path) as temporary:
        if has_begun:
            temporary.write_text("ne")
        raise error
    assert os.listdir(tmp_path) == ["file.txt"] * exists
    assert not exists or path.read_text() == "old"


def test_weights_are_kept_when_saving_fails(model_dir, model, contents, monkeypatch):
    def reserve_half(file, offset, size):
        os.ftruncate(file, size // 2)
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", reserve_half)
    with pytest.raises(OSError, match=r"No space left on device: '\S+/model.weights.h5'"):
        write_weights(model_dir, model)
    assert (model_dir / "model.weights.h5").read_bytes() == contents["model.weights.h5"]
    assert sorted(os.listdir(model_dir)) == FILES


def test_weights_of_another_model_are_refused(model_dir, model):
    """Also where the other model merely lacks some: nothing in the file may be left over."""
    path = model_dir / "config.json"
    description = json.loads(path.read_text())
    description["model"] |= {"norm_position": "pre", "final_norm": False, "activation": "swiglu"}
    path.write_text(json.dumps(description))
    with pytest.raises(ValueError, match=r"of another model \(decoder/\S+ has the shape"):
        load_model(model_dir)
    description["model"] |= {"final_norm": True, "activation": "relu"}
    path.write_text(json.dumps(description))
    with pytest.raises(ValueError, match=r"of another model \(decoder/final_norm/\S+ is missing\)"):
        load_model(model_dir)
    write_weights(model_dir, Transformer(TransformerConfig(**description["model"])))
    description["model"]["final_norm"] = False
    path.write_text(json.dumps(description))
    with pytest.raises(ValueError, match=r"'decoder/final_norm' is not in this model\)"):
        load_model(model_dir)


def test_config_holds_data_alone(contents, model):
    description = json.loads(contents["config.json"])
    assert description == {"format_version": 2, "model": dataclasses.asdict(model.config)}


@pytest.mark.slow
def test_mapped_weights_stay_in_the_file(tmp_path, monkeypatch, model):
    monkeypatch.setattr(weights_file, "_ALIGNED_BYTES", 256)
    write_config_and_tokenizers(tmp_path, model.config, SOURCE_MODEL, TARGET_MODEL)
    write_weights(tmp_path, model)
    path = tmp_path / "model.weights.h5"
    content = path.read_bytes()
    mapped, *_ = load_model(tmp_path, mapped=True)
    with open("/proc/self/maps") as maps:
        assert str(path) in maps.read()
    np.testing.assert_array_equal(mapped(IDS), load_model(tmp_path)[0](IDS))
    for weight in mapped.weights:
        weight.assign_add(np.ones(weight.shape))
    for weight, original in zip(mapped.weights, model.weights, strict=True):
        np.testing.assert_array_equal(weight, np.asarray(original) + 1)
    assert path.read_bytes() == content


def test_mapped_weights_are_checked(tmp_path, monkeypatch):
    monkeypatch.setattr(weights_file, "_ALIGNED_BYTES", 256)
    broken = make_model(make_config())
    kernel = max(broken.weights, key=lambda weight: np.prod(weight.shape))
    kernel.assign(np.full(kernel.shape, np.inf))
    write_config_and_tokenizers(tmp_path, broken.config, SOURCE_MODEL, TARGET_MODEL)
    write_weights(tmp_path, broken)
    with pytest.raises(InputError, match="NaN or infinite"):
        load_model(tmp_path, mapped=True)
