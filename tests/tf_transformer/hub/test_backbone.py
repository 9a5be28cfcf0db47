"""The backbone computes what the model computes, and its presets come back."""

import dataclasses
import json
import re

import h5py
import keras
import keras_hub
import numpy as np
import pytest

from tests.tf_transformer.hub.tasks import CONFIGS, backbone_inputs, make_backbone
from tf_transformer import Transformer, TransformerConfig
from tf_transformer.errors import InputError
from tf_transformer.hub import TransformerBackbone, TransformerSeq2SeqLM
from tf_transformer.storage.model_dir import WEIGHTS_NAME, write_weights

SOURCE = np.array([[5, 6, 7, 3], [9, 4, 3, 0]], "int32")
TARGET = np.array([[2, 4, 9, 12, 6], [2, 11, 5, 0, 0]], "int32")
IDS = {"source": SOURCE, "target": TARGET}
INPUTS = backbone_inputs(SOURCE, TARGET)


@pytest.fixture(scope="module")
def backbone():
    return make_backbone()


@pytest.mark.representatives("every switch", "recurrent")
@pytest.mark.slow
@pytest.mark.parametrize("name", CONFIGS)
def test_outputs_are_the_hidden_states_of_the_model(name):
    backbone = make_backbone(**CONFIGS[name])
    model = Transformer(backbone.transformer.config, dtype="float32")
    for weight, value in zip(model.weights, backbone.weights, strict=True):
        weight.assign(value)
    outputs = backbone(INPUTS)
    memory = model.encode(SOURCE)
    np.testing.assert_allclose(outputs["encoder_sequence_output"], memory, rtol=1e-5, atol=1e-5)
    logits = backbone.transformer.logits(outputs["decoder_sequence_output"])
    np.testing.assert_allclose(logits, model(IDS), rtol=1e-4, atol=1e-4)


@pytest.mark.slow
def test_masked_ids_are_padding(backbone):
    """Whatever they are; the other positions do not see them."""
    changed = {name: array.copy() for name, array in INPUTS.items()}
    changed["encoder_token_ids"][1, 3] = 8
    changed["decoder_token_ids"][1, 3:] = 7
    expected, found = backbone(INPUTS), backbone(changed)
    for name, array in expected.items():
        real = INPUTS[f"{name.partition('_')[0]}_padding_mask"].astype(bool)
        np.testing.assert_array_equal(np.asarray(found[name])[real], np.asarray(array)[real])
    changed["encoder_padding_mask"][1, 3] = 1
    seen = backbone(changed)["decoder_sequence_output"]
    assert not np.allclose(seen[1], expected["decoder_sequence_output"][1])


@pytest.mark.parametrize(
    "mask", [INPUTS["encoder_padding_mask"][:1], INPUTS["encoder_padding_mask"][:, :1]]
)
def test_padding_masks_of_another_shape_than_the_ids(backbone, mask):
    """TensorFlow would broadcast them."""
    message = rf"a padding mask must .*, here \(2, 4\)\. Received: {re.escape(str(mask.shape))}"
    with pytest.raises(InputError, match=message):
        backbone(INPUTS | {"encoder_padding_mask": mask})


@pytest.mark.slow
@pytest.mark.parametrize("name", INPUTS)
def test_inputs_that_are_no_integers(backbone, name):
    """Keras would round them, and read a bias of 0 and -1e9 as its inverse."""
    inputs = INPUTS | {name: INPUTS[name].astype("float32")}
    task = TransformerSeq2SeqLM(backbone)
    task.compile()
    for call in (
        lambda: backbone(inputs),
        lambda: task(inputs),
        lambda: task.fit(inputs, TARGET, verbose=0),
    ):
        with pytest.raises(InputError, match=f"`{name}` must be integers. Received: float32"):
            call()
    if name.endswith("mask"):
        boolean = INPUTS | {name: INPUTS[name].astype(bool)}
        np.testing.assert_array_equal(
            backbone(boolean)["decoder_sequence_output"],
            backbone(INPUTS)["decoder_sequence_output"],
        )


@pytest.mark.slow
def test_dropout_is_that_of_training(backbone):
    plain = backbone(INPUTS)["decoder_sequence_output"]
    np.testing.assert_array_equal(
        backbone(INPUTS, training=False)["decoder_sequence_output"], plain
    )
    assert not np.allclose(backbone(INPUTS, training=True)["decoder_sequence_output"], plain)


def test_a_functional_model_can_be_built_on_it(backbone):
    pooled = keras.layers.GlobalAveragePooling1D()(backbone.output["encoder_sequence_output"])
    model = keras.Model(backbone.input, keras.layers.Dense(3)(pooled))
    assert model(INPUTS).shape == (2, 3)


@pytest.mark.slow
def test_config_is_the_fields_of_the_dataclass(backbone):
    config = backbone.get_config()
    fields = {field.name for field in dataclasses.fields(TransformerConfig)}
    assert set(config) == fields | {"name", "trainable", "dtype"}
    again = TransformerBackbone.from_config(json.loads(json.dumps(config)))
    assert again.transformer.config == backbone.transformer.config
    assert again.name == backbone.name


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"decoder_only": True, "source_vocab_size": None, "tied_embeddings": None}, "LanguageMod"),
        ({"d_mode": 8}, "unknown setting of the model: 'd_mode'; did you mean 'd_model'"),
        ({"d_model": 7}, "`num_heads` must divide `d_model`"),
        ({"dtype": "int8_from_float32"}, "`dtype` must be a floating-point policy"),
        ({"dtype": {"class_name": "Lambda", "config": {"name": "x"}}}, "floating-point policy"),
        ({"dtype": {"class_name": "DTypePolicy", "config": "float32"}}, "floating-point policy"),
    ],
)
def test_settings_that_are_refused(backbone, changes, message):
    with pytest.raises(ValueError, match=message):
        TransformerBackbone.from_config(backbone.get_config() | changes)


# ---- Presets ----


@pytest.mark.representatives("every switch", "recurrent")
@pytest.mark.slow
@pytest.mark.parametrize("name", CONFIGS)
def test_presets_come_back(name, tmp_path):
    backbone = make_backbone(**CONFIGS[name])
    backbone.save_to_preset(tmp_path)
    loaded_by = keras_hub.models.Backbone if name == "untied" else TransformerBackbone
    loaded = loaded_by.from_preset(str(tmp_path))
    assert type(loaded) is TransformerBackbone
    assert loaded.transformer.config == backbone.transformer.config
    assert [weight.path for weight in loaded.weights] == [w.path for w in backbone.weights]
    for weight, expected in zip(loaded.weights, backbone.weights, strict=True):
        np.testing.assert_array_equal(weight, expected)


@pytest.mark.slow
def test_weights_are_a_model_directory_s(backbone, tmp_path):
    backbone.save_weights(tmp_path / "backbone.weights.h5")
    write_weights(tmp_path, backbone.transformer)
    expected = (tmp_path / WEIGHTS_NAME).read_bytes()
    assert (tmp_path / "backbone.weights.h5").read_bytes() == expected
    other = make_backbone(seed=1)
    other.load_weights(tmp_path / WEIGHTS_NAME)
    np.testing.assert_array_equal(other.weights[0], backbone.weights[0])


@pytest.mark.slow
def test_without_weights(backbone, tmp_path):
    backbone.save_to_preset(tmp_path)
    (tmp_path / WEIGHTS_NAME).unlink()
    loaded = TransformerBackbone.from_preset(tmp_path, load_weights=False)
    assert not np.allclose(loaded.weights[0], backbone.weights[0])


@pytest.mark.slow
def test_half_precision(backbone, tmp_path):
    dtype = "mixed_bfloat16"
    half = TransformerBackbone(**dataclasses.asdict(backbone.transformer.config), dtype=dtype)
    for weight, value in zip(half.weights, backbone.weights, strict=True):
        weight.assign(value)
    half.save_to_preset(tmp_path)
    assert TransformerBackbone.from_preset(tmp_path).compute_dtype == "float32"
    loaded = TransformerBackbone.from_preset(tmp_path, dtype=dtype)
    assert loaded.compute_dtype == "bfloat16"
    found, expected = (model(INPUTS)["decoder_sequence_output"] for model in (loaded, half))
    assert found.dtype == "bfloat16"
    np.testing.assert_array_equal(found, expected)


def test_names_of_weights_files(backbone, tmp_path):
    for method in (backbone.save_weights, backbone.load_weights):
        with pytest.raises(ValueError, match=r"must end in .weights.h5. Received: .*model.h5"):
            method(tmp_path / "model.h5")
    with pytest.raises(ValueError, match=r"none.weights.h5: no such file"):
        backbone.load_weights(tmp_path / "none.weights.h5")
    path = tmp_path / "a.weights.h5"
    backbone.save_weights(path)
    with pytest.raises(ValueError, match="exists already"):
        backbone.save_weights(path, overwrite=False)
    backbone.save_weights(path)


# ---- Quantization ----


@pytest.mark.slow
@pytest.mark.parametrize(("mode", "largest_error"), [("int8", 0.03), ("int4", 0.3)])
def test_quantized_backbones_compute_almost_the_same(mode, largest_error, tmp_path):
    backbone = make_backbone(d_model=32, d_ff=48)
    expected = np.asarray(backbone(INPUTS)["decoder_sequence_output"])
    kernels = [weight.shape for weight in backbone.weights if weight.name == "kernel"]
    backbone.quantize(mode)
    found = np.asarray(backbone(INPUTS)["decoder_sequence_output"])
    error = np.std(found - expected) / np.std(expected)
    assert 0 < error < largest_error
    dtypes = [weight.dtype for weight in backbone.weights if weight.name == "kernel"]
    assert dtypes == ["int8"] * len(kernels)
    for save in (backbone.save_to_preset, lambda path: backbone.save(path / "model.keras")):
        with pytest.raises(ValueError, match="Save it before you quantize"):
            save(tmp_path)
    assert not (tmp_path / WEIGHTS_NAME).exists()


def test_other_modes_are_refused(backbone):
    with pytest.raises(ValueError, match=r'`mode` must be "int8" or "int4". Received: mode=.fl'):
        backbone.quantize("float8")


# ---- Presets from elsewhere ----


@pytest.fixture
def preset(backbone, tmp_path):
    backbone.save_to_preset(tmp_path)
    return tmp_path


@pytest.fixture
def no_model(monkeypatch):
    """Fails where memory is allocated for a model."""

    def fail(*_, **__):
        pytest.fail("a model is made before the files are checked")

    monkeypatch.setattr("tf_transformer.hub.backbone.Transformer", fail)


def change_config(preset, change):
    path = preset / "config.json"
    description = json.loads(path.read_text())
    change(description)
    path.write_text(json.dumps(description))


@pytest.mark.usefixtures("no_model")
@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda d: d["config"].update(d_model=2**17), r"config.json: `d_model` must be less than"),
        (lambda d: d["config"].update(d_model=2**16), "has the shape"),
        (lambda d: d["config"].update(num_encoder_layers=1000), "is missing"),
        (lambda d: d["config"].update(code="x"), "unknown setting of the model: 'code'"),
        (
            lambda d: d.update(config=[]),
            r"expected the settings of a TransformerBackbone, got \[\]",
        ),
        (
            lambda d: d.update(registered_name="keras_hub>B"),
            "TransformerBackbone, got 'keras_hub>B",
        ),
        (lambda d: d.update(registered_name={}), "description of a tf_transformer>Trans.*, got {}"),
        (lambda d: d["config"].update(dtype={"class_name": "Lambda"}), "floating-point policy"),
    ],
)
def test_configurations_that_are_refused(preset, change, message):
    change_config(preset, change)
    with pytest.raises(ValueError, match=message) as raised:
        TransformerBackbone.from_preset(preset)
    assert "\n" not in str(raised.value)


@pytest.mark.usefixtures("no_model")
@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("config.json", b"[" * 100_000, "nested too deeply"),
        ("config.json", b" " * 2**21, "expected at most"),
        ("config.json", None, "is not a preset: it has no config.json"),
        ("model.weights.h5", b"x" * 3000, "damaged, or of another model"),
        ("model.weights.h5", None, "is not a preset: it has no model.weights.h5"),
        ("task.json", b"[]", "expected a JSON object"),
        ("tokenizer.json", b"{}", "description of a tf_transformer>TransformerTokenizer, got None"),
        ("preprocessor.json", b"{}", "tf_transformer>TransformerSeq2SeqLMPreprocessor, got None"),
        ("tokenizer.json", b" " * 2**21, "expected at most"),
    ],
)
def test_files_that_are_refused(preset, name, content, message):
    (preset / name).unlink(missing_ok=True)
    if content is not None:
        (preset / name).write_bytes(content)
    with pytest.raises(ValueError, match=message):
        TransformerBackbone.from_preset(preset)


@pytest.mark.slow
@pytest.mark.parametrize("loaded_by", [TransformerBackbone, keras_hub.models.Backbone])
@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda file: file.create_dataset("x", data=np.zeros(3)), "'x' is not in this model"),
        (lambda file: file.pop("decoder"), "decoder/layer_0/.* is missing"),
        (lambda file: file["target_embedding/embeddings"].write_direct(
            np.full(file["target_embedding/embeddings"].shape, np.nan, "float32")
        ), "NaN or infinite"),
    ],
)  # fmt: skip
def test_weights_that_are_refused(preset, loaded_by, change, message):
    """Also by the loader of KerasHub, which calls `load_weights`."""
    path = preset / WEIGHTS_NAME
    content = path.read_bytes()
    path.unlink()
    path.write_bytes(content)
    with h5py.File(path, "r+") as file:
        change(file)
    with pytest.raises(ValueError, match=message):
        loaded_by.from_preset(str(preset))


@pytest.mark.slow
def test_weights_in_shards_are_refused(preset):
    (preset / WEIGHTS_NAME).unlink()
    (preset / "model.weights.json").write_text(json.dumps({"weight_map": {}}))
    with pytest.raises(ValueError, match=r"must end in .weights.h5. Received: .*weights.json"):
        keras_hub.models.Backbone.from_preset(str(preset))
