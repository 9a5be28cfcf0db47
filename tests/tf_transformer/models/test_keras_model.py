"""A model as Keras' own tools meet it: summary, export, quantize, build, inputs."""

import io
import re
import warnings

import keras
import numpy as np
import pytest
import tensorflow as tf

from tf_transformer import (
    LabelSmoothedCrossEntropy,
    LanguageModel,
    NoamSchedule,
    Transformer,
    TransformerConfig,
)

VOCAB = 13
SMALL = dict(
    target_vocab_size=VOCAB, num_decoder_layers=1, d_model=8, d_ff=12, num_heads=2, dropout_rate=0.1
)
TWO_SIDES = SMALL | dict(source_vocab_size=VOCAB, num_encoder_layers=1)
CONFIGS = {
    "paper": TWO_SIDES,
    "nothing tied": TWO_SIDES | dict(tied_embeddings="none"),
    "every switch": TWO_SIDES
    | dict(
        tied_embeddings="inputs",
        norm_position="pre",
        norm_type="l1",
        positions="learned",
        relative_positions="keys_values",
        layer_history=True,
        activation="swiglu",
    ),
    "rms": TWO_SIDES | dict(norm_type="rms", positions="none", relative_positions="keys"),
    "two widths": TWO_SIDES | dict(encoder=dict(d_model=12)),
    "language model": SMALL | dict(decoder_only=True),
}
THREE_CONFIGS = pytest.mark.representatives("nothing tied", "every switch", "language model")
INPUTS = {
    "source": np.array([[5, 6, 7, 3], [9, 4, 0, 0]], "int32"),
    "target": np.array([[2, 4, 9, 12, 6], [2, 11, 5, 0, 0]], "int32"),
}
LABELS = np.array([[4, 9, 12, 6, 3], [11, 5, 3, 0, 0]], "int32")


def make_model(name="paper", **arguments):
    config = TransformerConfig(**CONFIGS[name])
    return (LanguageModel if config.decoder_only else Transformer)(config, **arguments)


def inputs_of(model):
    return {key: INPUTS[key] for key in model.input_keys}


@pytest.mark.parametrize("given", [{}, {"jit_compile": True}], ids=str)
def test_xla_is_off_unless_asked_for(monkeypatch, given):
    """On a GPU, Keras would turn it on, and it compiles for every shape of a batch."""
    gpu = tf.config.PhysicalDevice("GPU:0", "GPU")
    monkeypatch.setattr(tf.config, "list_physical_devices", lambda kind=None: [gpu])
    model = make_model()
    model.compile("sgd", LabelSmoothedCrossEntropy(), **given)
    assert model.jit_compile == bool(given)


@pytest.mark.slow
def test_a_loaded_model_is_compiled(tmp_path):
    model = compiled(make_model())
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    assert loaded.compiled and type(loaded.loss) is type(model.loss)


def compiled(model):
    model.compile(
        optimizer=keras.optimizers.Adam(NoamSchedule(8)),
        loss=LabelSmoothedCrossEntropy(0.1),
        run_eagerly=True,
    )
    return model


# Summary


def summary_rows(model, **options):
    """`{name: (shape, parameters)}` of a summary's table, in lists for names that come again."""
    output = io.StringIO()
    model.summary(print_fn=output.write, line_length=160, **options)
    rows = {}
    for line in output.getvalue().splitlines():
        cells = [cell.strip() for cell in line.split("│")[1:-1]]
        if len(cells) == 3 and cells[0]:
            name = re.sub(r" \(\w+\)$", "", cells[0].removeprefix("└ "))
            rows.setdefault(name, []).append((cells[1], int(cells[2].replace(",", ""))))
    total = int(re.search(r"Total params: ([\d,]+)", output.getvalue())[1].replace(",", ""))
    return rows, total


@pytest.fixture(autouse=True)
def wide_terminal(monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")


@pytest.mark.slow
@THREE_CONFIGS
@pytest.mark.parametrize("name", CONFIGS)
def test_summary_has_every_shape(name):
    rows, _ = summary_rows(make_model(name), expand_nested=True)
    assert rows["self_attention"] and rows["output_projection"] and rows["dropout"]
    shapes = {shape for found in rows.values() for shape, _ in found}
    assert all(re.fullmatch(r"[(\d, None)]+", shape) for shape in shapes), shapes


def test_shapes_of_the_summary():
    rows, _ = summary_rows(make_model("nothing tied"), expand_nested=True)
    shapes = {name: found[0][0] for name, found in rows.items()}
    assert shapes["source_embedding"] == shapes["encoder"] == shapes["layer_0"] == "(None, None, 8)"
    assert shapes["query_key_value"] == "(None, None, 24)"
    assert shapes["inner"] == "(None, None, 12)"
    assert shapes["source_positions"] == "(None, 8)"
    assert shapes["logits_projection"] == f"(None, None, {VOCAB})"
    # Of the attention weights, then of a sublayer's output and of the inner activations.
    assert {shape for shape, _ in rows["dropout"]} == {
        "(None, 2, None, None)",
        "(None, None, 8)",
        "(None, None, 12)",
    }


def test_summary_in_the_order_of_a_batch():
    model = make_model("nothing tied")
    rows, _ = summary_rows(model)
    assert list(rows)[:8] == [
        *("source_embedding", "source_positions", "embedding_dropout", "encoder"),
        *("target_embedding", "target_positions", "decoder", "logits_projection"),
    ]
    assert len(model.layers) == len(rows) == 8
    # Elsewhere in the order of creation, by which Keras names the weights in its files.
    assert [layer.name for layer in model.layers][:2] == ["decoder", "target_embedding"]


@THREE_CONFIGS
@pytest.mark.parametrize("name", CONFIGS)
def test_summary_counts_each_parameter_once(name):
    """The rows of the model's own layers add up to the total, a tied matrix among them once."""
    model = make_model(name)
    rows, total = summary_rows(model)
    assert sum(count for found in rows.values() for _, count in found) == total
    assert total == model.count_params() == sum(int(tf.size(w)) for w in model.weights)


@pytest.mark.slow
@THREE_CONFIGS
@pytest.mark.parametrize("name", CONFIGS)
def test_shapes_are_those_of_the_call(name):
    """What model, embedding and decoder say of themselves is what they compute."""
    model = make_model(name)
    inputs = inputs_of(model)
    shapes = {key: ids.shape for key, ids in inputs.items()}
    assert tuple(model(inputs).shape) == model.compute_output_shape(shapes) == (2, 5, VOCAB)
    hidden = model.target_embedding(INPUTS["target"])
    assert tuple(hidden.shape) == model.target_embedding.compute_output_shape((2, 5)) == (2, 5, 8)
    assert hidden.shape == model.decoder.compute_output_shape(hidden.shape)
    if model.target_positions is not None:
        positions = np.arange(5)
        assert tuple(model.target_positions(positions).shape) == (
            model.target_positions.compute_output_shape(positions.shape)
        )


def test_nested_layers_leave_the_files_as_they_are(tmp_path):
    """What a summary shows is no second place where weights are stored."""
    import h5py

    model = make_model()
    model.save_weights(tmp_path / "model.weights.h5")
    names = []
    with h5py.File(tmp_path / "model.weights.h5") as file:
        file.visit(names.append)
    assert "encoder/stacked_layers/encoder_layer/self_attention/query_key_value" in names
    # At the top Keras itself writes the model's `layers`.
    assert not [name for name in names if "/layers" in name]


@pytest.mark.parametrize("name", ["paper", "language model"])
def test_build_is_for_free(name):
    """Keras' users build before they look; here the constructor has."""
    model = make_model(name)
    weights = [id(weight) for weight in model.weights]
    model.build(model.input_shapes)
    model.build({key: (2, 7) for key in model.input_keys})
    assert [id(weight) for weight in model.weights] == weights


# Export


class Subclass(Transformer):
    pass


def built(how, tmp_path):
    if how == "new":
        return make_model()
    if how == "subclass":
        return Subclass(TransformerConfig(**CONFIGS["paper"]))
    if how == "language model":
        return make_model("language model")
    model = compiled(make_model())
    if how == "fitted":
        model.fit(INPUTS, LABELS, verbose=0)
    if how == "loaded":
        model.save(tmp_path / "model.keras")
        model = keras.models.load_model(tmp_path / "model.keras")
    return model


@pytest.mark.representatives("loaded", "language model")
@pytest.mark.slow
@pytest.mark.parametrize("how", ["new", "fitted", "loaded", "subclass", "language model"])
def test_export_of_keras(how, tmp_path):
    """A SavedModel from ids to logits, for batches and lengths of any size."""
    model = built(how, tmp_path)
    model.export(tmp_path / "served", verbose=False)
    served = tf.saved_model.load(tmp_path / "served")
    inputs = inputs_of(model)
    np.testing.assert_allclose(served.serve(inputs), model(inputs), atol=1e-6)
    short = {key: ids[:1, :3] for key, ids in inputs.items()}
    np.testing.assert_allclose(served.serve(short), model(short), atol=1e-6)
    signature = served.signatures["serving_default"].structured_input_signature[1]
    assert signature == {
        key: tf.TensorSpec((None, None), tf.int32, key) for key in model.input_keys
    }


def test_export_hands_on_what_it_is_given(monkeypatch):
    calls = []
    monkeypatch.setattr(
        keras.Model, "export", lambda self, *arguments, **kwargs: calls.append((arguments, kwargs))
    )
    model = make_model()
    mine = [{key: keras.InputSpec(shape=(2, 4), dtype="int32") for key in ("source", "target")}]
    model.export("m.onnx", format="onnx", input_signature=mine, opset_version=18)
    model.export("m.tflite", "litert", True)
    assert calls[0] == (("m.onnx", "onnx", None, mine), {"opset_version": 18})
    (path, format, verbose, (specs,)), kwargs = calls[1]
    assert (path, format, verbose, kwargs) == ("m.tflite", "litert", True, {})
    assert {key: (spec.shape, spec.dtype) for key, spec in specs.items()} == {
        key: ((None, None), "int32") for key in ("source", "target")
    }


# Quantize


@pytest.mark.parametrize(
    "arguments",
    [
        ("int8",),
        ("int4",),
        ("float8",),
        (None, keras.quantizers.Int8QuantizationConfig()),
        ("gptq", keras.quantizers.GPTQConfig(dataset=["a"], tokenizer=str.split)),
    ],
    ids=lambda arguments: arguments[0] or "a configuration",
)
@pytest.mark.parametrize("name", ["paper", "language model"])
def test_keras_quantize_is_refused(name, arguments):
    """In one error that says what to use; Keras' own warned 30 times and changed nothing."""
    model = make_model(name)
    weights = model.get_weights()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        message = r"tf_transformer\.quantization\.int8\.quantize.*--dtype"
        with pytest.raises(NotImplementedError, match=message):
            model.quantize(*arguments)
    for weight, before in zip(model.get_weights(), weights, strict=True):
        np.testing.assert_array_equal(weight, before)


@pytest.mark.parametrize("dtype", ["int8_from_float32", "float8_from_mixed_bfloat16"])
def test_quantized_policy_is_refused(dtype):
    with pytest.raises(ValueError, match=f"floating-point policy.*Received: dtype='{dtype}'"):
        make_model(dtype=dtype)


# Inputs


@pytest.mark.parametrize(
    ("inputs", "received"),
    [
        ((INPUTS["source"], INPUTS["target"]), "tuple"),
        ({"source": INPUTS["source"]}, r"\['source'\]"),
        ({"src": INPUTS["source"], "tgt": INPUTS["target"]}, r"\['src', 'tgt'\]"),
    ],
    ids=["tuple", "no target", "other names"],
)
def test_other_inputs_are_named(inputs, received):
    expected = rf"dictionary with the keys \['source', 'target'\]. Received: {received}"
    model = make_model()
    with pytest.raises(ValueError, match=expected):
        model(inputs)
    with pytest.raises(ValueError, match=expected):
        model.predict(inputs, verbose=0)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("source", "target", "received"),
    [
        ((5,), (5,), r"source of \(5,\), target of \(5,\)"),
        ((2, 5), (5,), r"source of \(2, 5\), target of \(5,\)"),
        ((1, 2, 5), (1, 2, 5), r"source of \(1, 2, 5\)"),
        ((1, 5), (2, 5), r"source of \(1, 5\), target of \(2, 5\)"),
        ((3, 5), (1, 5), r"source of \(3, 5\), target of \(1, 5\)"),
        ((), (), r"source of \(\), target of \(\)"),
    ],
)
def test_inputs_of_other_shapes_are_named(source, target, received):
    """Rows of one side alone would be broadcast."""
    inputs = {"source": np.ones(source, "int32"), "target": np.ones(target, "int32")}
    expected = rf"`inputs` must be ids of the shape \(batch, length\). Received: {received}"
    with pytest.raises(ValueError, match=expected):
        make_model()(inputs)


@pytest.mark.slow
def test_inside_a_functional_model(tmp_path):
    model = make_model()
    inputs = {key: keras.Input((None,), dtype="int32", name=key) for key in model.input_keys}
    outer = keras.Model(inputs, model(inputs))
    assert outer.output_shape == (None, None, VOCAB)
    outer.save(tmp_path / "outer.keras")
    restored = keras.models.load_model(tmp_path / "outer.keras")
    np.testing.assert_array_equal(restored(INPUTS), model(INPUTS))


@pytest.mark.slow
def test_low_rank_adaptation():
    """`Projection.enable_lora`: only the new factors train, and saved weights have them merged."""
    model = make_model()
    before = np.asarray(model(INPUTS))
    layers = [layer for layer in model._flatten_layers() if hasattr(layer, "enable_lora")]
    for layer in layers:
        layer.enable_lora(2)
    np.testing.assert_array_equal(model(INPUTS), before)
    kernels = [np.asarray(layer._kernel) for layer in layers]
    compiled(model).fit(INPUTS, LABELS, epochs=2, verbose=0)
    for layer, kernel in zip(layers, kernels, strict=True):
        np.testing.assert_array_equal(layer._kernel, kernel)
        assert np.any(layer.lora_kernel_b)
    assert np.any(np.asarray(model(INPUTS)) != before)
