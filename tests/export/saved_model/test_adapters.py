"""Adapters at export: one merged, or several in one model, chosen by row."""

import json

import keras
import numpy as np
import pytest
import tensorflow as tf

from export.saved_model.signatures import ServedTranslator
from tests.export.saved_model.guide_request import answer_to_the_guide
from tests.export.saved_model.random_adapters import ADAPTERS
from tests.training.test_lora import randomized
from tf_transformer import Transformer, TransformerConfig
from tf_transformer.__main__ import main
from tf_transformer.decoding.translation_search import TranslationSearch
from tf_transformer.inference.translator import Translator
from tf_transformer.models.lora import base_weights, lora_variables, merged_values
from tf_transformer.models.row_adapters import adapt_rows, row_choice, rows_adapted
from tf_transformer.quantization.int8 import quantize
from tf_transformer.storage.adapter_file import kernel_shapes, read_adapter
from tf_transformer.storage.model_dir import read_config
from tf_transformer.storage.trained_models import TrainedModels


@pytest.fixture(scope="module")
def files(with_files):
    return with_files.adapters


def sentences(corpus):
    return [line.strip() for line in open(corpus.path("validation.en"), encoding="utf-8")][:10]


def adapted(model_dir, files, dtype="float32", **options):
    models = TrainedModels((model_dir,), row_adapters=tuple(files.items()))
    return Translator(*models.load(dtype), beam_size=2, **options)


CONFIG = dict(
    source_vocab_size=13,
    target_vocab_size=13,
    num_encoder_layers=1,
    num_decoder_layers=1,
    d_model=8,
    d_ff=16,
    num_heads=2,
    dropout_rate=0.0,
    max_length=12,
)


def adapted_and_merged(config):
    """A model with all adapters; a plain one, and its weights for each choice, merged."""
    keras.utils.set_random_seed(5)
    plain = Transformer(config)
    matrices, merged = {}, [plain.get_weights()]
    for seed, (name, (rank, part)) in enumerate(ADAPTERS.items()):
        names = [layer for layer in kernel_shapes(config) if "layer_" in layer and part in layer]
        model = Transformer(config)
        model.set_weights(merged[0])
        randomized(model, rank, names, alpha=1.5 * rank, seed=seed)
        variables = lora_variables(model)
        matrices[name] = {
            layer: (1.5 * variables[f"{layer}/lora_kernel_a"].numpy(),
                    variables[f"{layer}/lora_kernel_b"].numpy())
            for layer in names
        }  # fmt: skip
        plain.set_weights(merged[0])
        weights = base_weights(plain)
        for weight, value in merged_values(model):
            weights[weight].assign(value)
        merged.append(plain.get_weights())
    together = Transformer(config)
    together.set_weights(merged[0])
    return together, matrices, plain, merged


def search_by_row(config):
    """The search, its results for rows with adapters, and those of each with its merged model."""
    together, matrices, plain, merged = adapted_and_merged(config)
    adapt_rows(together, matrices)
    random = np.random.default_rng(5)
    lengths = [5, 1, 8, 3, 7, 2, 4, 6]
    source = tf.ragged.constant(
        [random.integers(4, 13, size=length).tolist() for length in lengths], tf.int32
    )
    chosen = [0, 1, 2, 3, 3, 1, 2, 0]
    search = TranslationSearch(together, beam_size=3)
    found = search.run(source, num_best=3, adapters=tf.constant(chosen))
    search_alone = TranslationSearch(plain, beam_size=3)
    expected = []
    for row, index in enumerate(chosen):
        plain.set_weights(merged[index])
        expected.append(search_alone.run(source[row : row + 1], num_best=3))
    alone = search.run(source[3:4], num_best=3, adapters=tf.constant(chosen[3:4]))
    np.testing.assert_allclose(found.scores[3], alone.scores[0], rtol=1e-4, atol=1e-4)
    return found, expected


@pytest.mark.representatives("{}")
@pytest.mark.slow
@pytest.mark.parametrize(
    "switches",
    [
        {},
        dict(decoder_autoregression="ssru"),
        dict(tied_embeddings="none", activation="swiglu", relative_positions="keys_values"),
        dict(head_dim=3, dense_bias=False, relative_positions="buckets", embedding_norm=True),
    ],
    ids=str,
)
def test_each_row_has_its_adapter(switches):
    """Rows of a batch get what the merged models give them alone; rows drop out on the way."""
    found, expected = search_by_row(TransformerConfig(**CONFIG, **switches))
    differ = 0
    for row, alone in enumerate(expected):
        np.testing.assert_allclose(found.scores[row], alone.scores[0], rtol=1e-3, atol=1e-4)
        length = int(alone.lengths[0, 0])
        assert int(found.lengths[row, 0]) == length
        np.testing.assert_array_equal(found.ids[row, 0, :length], alone.ids[0, 0, :length])
        differ += not np.allclose(found.scores[row], expected[0].scores[0])
    assert differ == len(expected) - 1


@pytest.mark.slow
def test_adapters_of_a_quantized_model():
    """A and B are not quantized, so that the error is that of the model's 8 bits.

    It is compared with that of the quantized model without adapters, and with what the adapters
    change.
    """
    together, matrices, plain, merged = adapted_and_merged(TransformerConfig(**CONFIG))
    quantize(together)
    adapt_rows(together, matrices)
    random = np.random.default_rng(6)
    inputs = {key: random.integers(4, 13, size=(4, 9)) for key in ("source", "target")}
    plain.set_weights(merged[0])
    base = plain(inputs).numpy()
    with rows_adapted(together, tf.constant([0, 1, 2, 3])):
        found = together(inputs).numpy()
    own_error = np.linalg.norm(found[0] - base[0])
    assert own_error < 0.1 * np.linalg.norm(base[0])
    for row in (1, 2, 3):
        plain.set_weights(merged[row])
        expected = plain(inputs).numpy()[row]
        error = np.linalg.norm(found[row] - expected)
        assert error < 3 * own_error
        assert error < 0.3 * np.linalg.norm(expected - base[row])


@pytest.mark.slow
def test_without_a_choice_the_model_is_the_base():
    config = TransformerConfig(**CONFIG)
    model = Transformer(config)
    random = np.random.default_rng(1)
    inputs = {key: random.integers(4, 13, size=(3, 5)) for key in ("source", "target")}
    expected = model(inputs)
    layer = "encoder/layer_0/feed_forward/inner"
    a, b = (random.normal(size=shape).astype("float32") for shape in ((8, 2), (2, 16)))
    adapt_rows(model, {"a": {layer: (a, b)}})
    np.testing.assert_array_equal(model(inputs), expected)
    with rows_adapted(model, tf.constant([0, 1, 0])):
        found = model(inputs)
    for row, same in enumerate((True, False, True)):
        assert np.allclose(found[row], expected[row], atol=1e-6) == same
    np.testing.assert_array_equal(model(inputs), expected)
    names = tf.constant(["a", "", "b", b"\xff"])
    assert row_choice(model).find(names).numpy().tolist() == [1, 0, 0, 0]


def test_adapters_of_the_logits_are_refused():
    model = Transformer(TransformerConfig(**CONFIG, tied_embeddings="none"))
    matrices = {"logits_projection": (np.ones((8, 1), "f4"), np.ones((1, 13), "f4"))}
    with pytest.raises(ValueError, match="logits_projection cannot be chosen by row"):
        adapt_rows(model, {"a": matrices})


@pytest.mark.exhaustive
@pytest.mark.slow
def test_translations_are_those_of_merged_models(talkative, files, corpus):
    lines = sentences(corpus)
    translator = adapted(talkative, files, chunk_size=4)
    served = ServedTranslator(translator, ["adapted", "serving_default"])
    expected = {"": Translator.load(talkative, beam_size=2)(lines)}
    for name, path in files.items():
        expected[name] = Translator.load(talkative, adapter=path, beam_size=2)(lines)
    assert len(set(map(tuple, expected.values()))) == 4
    names = [["", *files, "unknown"][number % 5] for number in range(len(lines))]
    unset = dict(beam_size=0, length_penalty=-1.0, max_length=0, min_length=0, no_repeat_ngram=0)
    options = {name: tf.fill([len(lines)], value) for name, value in unset.items()}
    options["coverage_penalty"] = tf.zeros(len(lines))
    found = served.functions["adapted"](
        text=tf.constant(lines), adapter=tf.constant(names), **options
    )
    used = [name if name != "unknown" else "" for name in names]
    assert [name.decode() for name in found["adapter"].numpy()] == used
    for row, name in enumerate(used):
        assert found["translation"][row].numpy().decode() == expected[name][row]
    plain = served.functions["serving_default"](text=tf.constant(lines))["translation"]
    assert [text.decode() for text in plain.numpy()] == expected[""]


@pytest.mark.slow
def test_export_command(unverified, with_files, files, corpus, tmp_path):
    record = json.loads((with_files.folder / "1" / "model.json").read_text())
    assert record["adapters"].keys() == files.keys()
    assert answer_to_the_guide(with_files.folder, "adapted")["adapter"].numpy() == [b""]
    # One adapter, merged: the SavedModel of another model.
    command = ["export", "--model-dir", str(with_files.model_dir)]
    command += ["--output", str(tmp_path / "served"), "--signatures", "serving_default"]
    assert main([*command, "--adapter", str(files["it"])]) == 0
    record = json.loads((tmp_path / "served" / "1" / "model.json").read_text())
    config = read_config(with_files.model_dir)
    assert record["adapter_digest_blake2b"] == read_adapter(files["it"], config).digest()
    lines = sentences(corpus)
    function = tf.saved_model.load(str(tmp_path / "served" / "1")).signatures["serving_default"]
    found = [text.decode() for text in function(text=tf.constant(lines))["translation"].numpy()]
    assert found == Translator.load(with_files.model_dir, adapter=files["it"])(lines)


@pytest.mark.slow
def test_options_that_are_refused(talkative, trained, files, tmp_path, capsys):
    path = files["it"]
    command = ["export", "--model-dir", str(talkative), "--output", str(tmp_path / "served")]
    for options, message in (
        (["--adapters", f"a={path}", f"a={path}"], "a is given twice"),
        (["--adapters", f"a={path}", "--adapter", str(path)], "give one of the two options"),
        (["--adapters", f"a={path}", "--xla"], "XLA cannot compile a model with several adapters"),
        (["--adapters", f"a={tmp_path}/none"], "none: no such file"),
        (["--signatures", "adapted"], "'adapted' needs --adapters NAME=F"),
    ):
        assert main([*command, *options]) == 2
        error = capsys.readouterr().err
        assert message in error and error.count("\n") == 1
    for name in ("a", "=x", "a b=x", "a="):
        with pytest.raises(SystemExit) as raised:
            main([*command, "--adapters", name])
        assert raised.value.code == 2 and "expected NAME=F" in capsys.readouterr().err
    command[2] = str(trained)
    assert main([*command, "--adapters", f"a={path}"]) == 2
    assert "adapts the model with the weights digest" in capsys.readouterr().err
