"""The task: from and to model directories and presets, training on strings."""

import json
import pathlib
import re
import subprocess
import sys

import keras
import keras_hub
import numpy as np
import pytest
import tensorflow as tf

from tests.tf_transformer.hub.tasks import CONFIGS, SOURCES, TARGETS, make_backbone, make_task
from tests.tf_transformer.storage.test_model_dir import (
    SOURCE_MODEL,
    TARGET_MODEL,
    make_config,
    make_model,
)
from tf_transformer import LabelSmoothedCrossEntropy
from tf_transformer.errors import InputError
from tf_transformer.hub import (
    TransformerBackbone,
    TransformerSeq2SeqLM,
    TransformerSeq2SeqLMPreprocessor,
    TransformerTokenizer,
)
from tf_transformer.storage.model_dir import write_config_and_tokenizers, write_weights

ROOT = pathlib.Path(__file__).parents[3]
PAIRS = {"encoder_text": SOURCES, "decoder_text": TARGETS}


def write_model_dir(path, **settings):
    config = make_config(**settings)
    is_joint = config.source_vocab_size == config.target_vocab_size
    target = SOURCE_MODEL if is_joint else TARGET_MODEL
    write_config_and_tokenizers(path, config, SOURCE_MODEL, target)
    write_weights(path, make_model(config))
    return path


def contents(folder) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def assert_equal(one, other):
    for weight, expected in zip(one.weights, other.weights, strict=True):
        np.testing.assert_array_equal(weight, expected)


# ---- There and back ----


@pytest.mark.representatives("separate vocabularies", "every switch")
@pytest.mark.slow
@pytest.mark.parametrize("name", ["separate vocabularies", "every switch", "two widths"])
def test_model_directories_come_back(name, tmp_path):
    """Every file of them, through the task and through a preset."""
    model_dir = write_model_dir(tmp_path / "model", **CONFIGS[name])
    task = TransformerSeq2SeqLM.from_model_dir(model_dir)
    task.to_model_dir(tmp_path / "directly")
    task.save_to_preset(tmp_path / "preset")
    TransformerSeq2SeqLM.from_preset(tmp_path / "preset").to_model_dir(tmp_path / "by preset")
    expected = contents(model_dir)
    assert sorted(expected) == ["config.json", "model.weights.h5", "source.spm", "target.spm"]
    assert contents(tmp_path / "directly") == expected
    assert contents(tmp_path / "by preset") == expected
    is_joint = task.preprocessor.target_tokenizer is task.preprocessor.tokenizer
    assert is_joint == (name == "every switch")
    assert (tmp_path / "preset" / "target_tokenizer.json").exists() == (not is_joint)


@pytest.mark.slow
def test_presets_are_loaded_by_keras_hub(tmp_path):
    task = make_task()
    task.save_to_preset(tmp_path)
    assert not (tmp_path / "task.weights.h5").exists()
    loaded = keras_hub.models.Seq2SeqLM.from_preset(str(tmp_path))
    assert type(loaded) is TransformerSeq2SeqLM
    assert_equal(loaded, task)
    assert [tokenizer.model for tokenizer in loaded.tokenizers] == [SOURCE_MODEL, TARGET_MODEL]
    without = keras_hub.models.Seq2SeqLM.from_preset(str(tmp_path), preprocessor=None)
    assert without.preprocessor is None
    other = keras_hub.models.Seq2SeqLM.from_preset(str(tmp_path), load_weights=False)
    assert not np.allclose(other.weights[0], task.weights[0])


@pytest.mark.exhaustive
@pytest.mark.slow
def test_the_package_registers_its_classes_with_keras_hub(tmp_path):
    """`tests/tf_transformer/test_registration.py` imports both in the other order."""
    make_task().save_to_preset(tmp_path)
    program = (
        "import tf_transformer, keras_nlp\n"
        f"print(type(keras_nlp.models.Seq2SeqLM.from_preset({str(tmp_path)!r})).__name__)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == "TransformerSeq2SeqLM\n"


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*compile:UserWarning")
def test_keras_saves_the_task(tmp_path):
    task = make_task()
    task.save(tmp_path / "task.keras")
    loaded = keras.models.load_model(tmp_path / "task.keras")
    assert_equal(loaded, task)
    inputs, _, _ = task.preprocessor(PAIRS)
    np.testing.assert_array_equal(loaded(inputs), task(inputs))
    assert loaded.preprocessor.get_config() == task.preprocessor.get_config()
    assert loaded.tokenizers[1].model == TARGET_MODEL


@pytest.mark.slow
def test_a_model_is_not_overwritten(tmp_path):
    task = make_task()
    task.to_model_dir(tmp_path)
    with pytest.raises(ValueError, match="expected a new or empty folder"):
        task.to_model_dir(tmp_path)


def test_a_language_model_is_refused(tmp_path):
    config = make_config(decoder_only=True, source_vocab_size=None)
    write_config_and_tokenizers(tmp_path, config, None, TARGET_MODEL)
    with pytest.raises(ValueError, match="is a language model, which has no source"):
        TransformerSeq2SeqLM.from_model_dir(tmp_path)


@pytest.mark.slow
def test_translators_are_prepared_for_decoding():
    """As `Translator.load` prepares them, and the task stays as it is."""
    task = make_task()
    translator = task.translator("int8", beam_size=2)
    assert translator.search.beam_size == 2
    assert any(weight.dtype == "int8" for weight in translator.model.weights)
    assert not any(weight.dtype == "int8" for weight in task.weights)
    half = task.translator("bfloat16").model
    assert half.compute_dtype == "bfloat16"
    with pytest.raises(ValueError, match=r"`dtype` must be one of .*Received: 'float64'"):
        task.translator(dtype="float64")


@pytest.mark.slow
def test_export_says_what_to_call(tmp_path):
    with pytest.raises(ValueError, match=r"`export.export_task\(task, directory\)` for a SavedM"):
        make_task().export(tmp_path)


# ---- What does not fit ----


@pytest.mark.slow
def test_parts_that_are_refused():
    backbone = make_backbone(max_length=20)
    tokenizer = TransformerTokenizer(SOURCE_MODEL)
    with pytest.raises(ValueError, match=r"`backbone` must be a TransformerBackbone. Received"):
        TransformerSeq2SeqLM(backbone.transformer)
    with pytest.raises(ValueError, match=r"`preprocessor` must be a TransformerSeq2SeqLMPrep"):
        TransformerSeq2SeqLM(backbone, tokenizer)
    with pytest.raises(ValueError, match=r"at most the model's max_length=20. Rec.*_length=256"):
        TransformerSeq2SeqLM(backbone, TransformerSeq2SeqLMPreprocessor(tokenizer))
    joint = TransformerSeq2SeqLMPreprocessor(
        tokenizer, encoder_sequence_length=20, decoder_sequence_length=20
    )
    task = TransformerSeq2SeqLM(backbone, joint)
    message = "tokenizer of the target must have target_vocab_size=15 pieces. Received: 13"
    for use in (
        lambda: task.generate(SOURCES),
        lambda: task.train_on_batch(SOURCES, TARGETS),
        lambda: task.to_model_dir("nowhere"),
    ):
        with pytest.raises(ValueError, match=message):
            use()


@pytest.mark.slow
def test_text_needs_a_preprocessor():
    task = TransformerSeq2SeqLM(make_backbone())
    with pytest.raises(ValueError, match="`preprocessor` must be set for text"):
        task.generate(SOURCES)


# ---- Presets from elsewhere ----


@pytest.fixture(scope="module")
def preset_contents(tmp_path_factory):
    folder = tmp_path_factory.mktemp("preset")
    make_task().save_to_preset(folder)
    return {
        path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()
    }


@pytest.fixture
def preset(preset_contents, tmp_path):
    for name, content in preset_contents.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(content)
    return tmp_path


LAMBDA = {
    "module": "keras.layers",
    "class_name": "Lambda",
    "config": {"function": "x"},
    "registered_name": None,
}


def change_task(preset, change):
    path = preset / "task.json"
    description = json.loads(path.read_text())
    change(description["config"])
    path.write_text(json.dumps(description))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("part", "value", "message"),
    [
        ("backbone", LAMBDA, "expected the description of a tf_transformer>TransformerBackbone"),
        ("preprocessor", LAMBDA, "description of a tf_transformer>TransformerSeq2SeqLMPreproc"),
        ("preprocessor", [], "description of a tf_transformer>TransformerSeq2SeqLMPreprocessor"),
        ("sampler", LAMBDA, "unknown setting: 'sampler'"),
    ],
)
def test_nothing_is_made_of_classes_that_a_preset_names(preset, part, value, message):
    change_task(preset, lambda config: config.update({part: value}))
    with pytest.raises(ValueError, match=message):
        keras_hub.models.Seq2SeqLM.from_preset(str(preset))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda c: c["backbone"]["config"].update(d_model=2**16), "expected the settings in conf"),
        (
            lambda c: c["backbone"].update(registered_name="x"),
            "TransformerBackbone, got 'x'",
        ),
        (lambda c: c.update(backbone=None), "TransformerBackbone, got None"),
        (lambda c: c.update(preprocessor=LAMBDA), "description of a tf_transformer>"),
    ],
)
def test_tasks_that_are_refused(preset, change, message):
    change_task(preset, change)
    with pytest.raises(ValueError, match=message):
        TransformerSeq2SeqLM.from_preset(preset)


@pytest.mark.slow
def test_another_vocabulary_is_refused(preset):
    (preset / "assets" / "target_tokenizer" / "vocabulary.spm").write_bytes(SOURCE_MODEL)
    with pytest.raises(ValueError, match=r"target must have target_vocab_size=15 pieces. Rec"):
        TransformerSeq2SeqLM.from_preset(preset)


@pytest.mark.slow
def test_weights_of_the_task_are_refused(preset):
    (preset / "task.weights.h5").write_bytes(b"x")
    with pytest.raises(ValueError, match=r"task.weights.h5: expected no such file"):
        TransformerSeq2SeqLM.from_preset(preset)


# ---- Training ----


def numpy_loss(logits, labels, smoothing=0.1):
    """The mean over the tokens of the smoothed cross-entropy."""
    logits = np.asarray(logits, "float64")
    logits -= logits.max(axis=-1, keepdims=True)
    log_p = logits - np.log(np.exp(logits).sum(axis=-1, keepdims=True))
    q = (1 - smoothing) * np.eye(logits.shape[-1])[labels] + smoothing / logits.shape[-1]
    real = labels != 0
    return -(q * log_p).sum(axis=-1)[real].sum() / real.sum()


@pytest.fixture(scope="module")
def task():
    task = make_task()
    task.compile(run_eagerly=True)
    return task


@pytest.mark.slow
def test_the_loss_is_label_smoothed_and_ignores_padding(task):
    inputs, labels, _ = task.preprocessor(PAIRS)
    model = make_model(task.backbone.transformer.config)
    logits = model({"source": inputs["encoder_token_ids"], "target": inputs["decoder_token_ids"]})
    expected = numpy_loss(logits, labels.numpy())
    found = task.evaluate(SOURCES, TARGETS, verbose=0, return_dict=True)
    assert found["loss"] == pytest.approx(expected, rel=1e-5)
    assert float(LabelSmoothedCrossEntropy(0.1)(labels, logits)) == pytest.approx(
        expected, rel=1e-5
    )
    perplexity = np.exp(numpy_loss(logits, labels.numpy(), smoothing=0.0))
    assert found["perplexity"] == pytest.approx(perplexity, rel=1e-4)
    right = (np.argmax(logits, -1) == labels.numpy())[labels.numpy() != 0]
    assert found["accuracy"] == pytest.approx(right.mean())
    padded = task.preprocessor(PAIRS)
    padded = tf.nest.map_structure(lambda part: tf.pad(part, [[0, 0], [0, 3]]), padded)
    task.preprocessor, preprocessor = None, task.preprocessor
    assert task.evaluate(*padded[:2], verbose=0)[0] == pytest.approx(expected, rel=1e-5)
    task.preprocessor = preprocessor


@pytest.mark.slow
def test_a_step_is_that_of_this_project():
    settings = dict(dropout_rate=0.0)
    task = make_task(**settings)
    task.compile(optimizer=keras.optimizers.SGD(0.01), run_eagerly=True)
    model = make_model(task.backbone.transformer.config)
    model.compile(
        optimizer=keras.optimizers.SGD(0.01), loss=LabelSmoothedCrossEntropy(0.1), run_eagerly=True
    )
    inputs, labels, _ = task.preprocessor(PAIRS)
    ids = {"source": inputs["encoder_token_ids"], "target": inputs["decoder_token_ids"]}
    expected = model.train_on_batch(ids, labels)
    assert task.train_on_batch(SOURCES, TARGETS)[0] == pytest.approx(expected, rel=1e-5)
    for weight, other in zip(task.weights, model.weights, strict=True):
        np.testing.assert_allclose(weight, other, rtol=1e-4, atol=1e-5)


EQUAL = "there must be as many targets as sources, and at least one. Received: "


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((["a", "b"], ["c"]), EQUAL + "2 in x, 1 in y"),
        (({"encoder_text": ["a", "b"], "decoder_text": ["c"]},), EQUAL + "2 in encoder_text"),
        (([], []), EQUAL + "0 in x, 0 in y"),
        ((["a"], ["b"], None, [1.0, 2.0]), EQUAL + "1 in x, 1 in y, 2 in sample_weight"),
        ((["a", "b"],), "`y` must be the targets if `x` are the sources. Received: y=None"),
        (({"encoder_txt": ["a"], "decoder_text": ["b"]},), "`x` must be a dictionary with"),
        ((["a", "b"], [1, 2]), "`y` must be a list of strings. Received: int at index 0"),
        ((["a", None], ["b", "c"]), "`x` must be a list of strings. Received: NoneType at index 1"),
        ((np.ones((2, 3)), ["b", "c"]), "`x` must be a list of strings. Received: ndarray"),
        ((SOURCES, TARGETS, None, None, (["a", "b"], ["c"])), EQUAL + "2 in x, 1 in y"),
    ],
)  # fmt: skip
def test_texts_that_do_not_fit(task, arguments, message):
    """In one line, and by `evaluate`, too."""
    message = f"^{re.escape(message)}"
    with pytest.raises(InputError, match=message):
        task.fit(*arguments, verbose=0)
    if len(arguments) < 5:
        with pytest.raises(InputError, match=message):
            task.evaluate(*arguments, verbose=0)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda task: TransformerSeq2SeqLM.from_model_dir("nowhere", dtyp="x"),
         "argument: 'dtyp'; did you mean 'dtype'?"),
        (lambda task: TransformerSeq2SeqLM.from_model_dir("nowhere", xyz=1),
         "argument: 'xyz'. Known are model_dir, dtype, name, trainable, compile"),
        (lambda task: TransformerSeq2SeqLM(None, preprocesor=None),
         "argument: 'preprocesor'; did you mean 'preprocessor'?"),
        (lambda task: task.translator(dtyp="int8"), "option: 'dtyp'; did you mean 'dtype'?"),
        (lambda task: task.translator(beamsize=3), "option: 'beamsize'; did you mean 'beam_size'?"),
        (lambda task: task.translator(xyz=3),
         "option: 'xyz'. Known are num_best, chunk_size, end_pieces, beam_size, length_penalty, "
         "max_length_factor, max_length_constant, compiled_shapes, dtype"),
        (lambda task: task.generate(SOURCES, beamsize=3),
         "option: 'beamsize'; did you mean 'beam_size'?"),
        (lambda task: task.fit(SOURCES, TARGETS, batchsize=3),
         "argument: 'batchsize'; did you mean 'batch_size'?"),
        (lambda task: task.fit(SOURCES, TARGETS, epoch=3),
         "argument: 'epoch'; did you mean 'epochs'?"),
        (lambda task: task.evaluate(SOURCES, TARGETS, batchsize=3),
         "argument: 'batchsize'; did you mean 'batch_size'?"),
        (lambda task: task.compile(optimiser="adam"),
         "argument: 'optimiser'; did you mean 'optimizer'?"),
    ],
)  # fmt: skip
def test_unknown_arguments(task, call, message):
    """In one line, and before any file is read."""
    with pytest.raises(InputError, match=f"(?i)^unknown {re.escape(message)}$"):
        call(task)


def test_unequal_batches(task):
    with pytest.raises(InputError, match=r"there must be as many targets as sources\. Received"):
        task.train_on_batch(["a", "b"], ["c"])


@pytest.mark.parametrize("options", [{}, {"shuffle": True}])
def test_datasets_bring_no_warning_about_their_order(task, options, monkeypatch):
    """Keras warns if `shuffle` is true, as it is by default."""
    given = {}
    monkeypatch.setattr(
        keras_hub.models.Seq2SeqLM, "fit", lambda self, *_, **named: given.update(named)
    )
    task.fit(tf.data.Dataset.from_tensor_slices((SOURCES, TARGETS)).batch(2), **options)
    assert given == {"shuffle": options.get("shuffle", False)}


@pytest.mark.exhaustive  # tests/tf_transformer/hub/test_lora.py trains the task, too
@pytest.mark.slow
def test_training_learns():
    task = make_task(dropout_rate=0.0, norm_position="pre")
    task.compile(optimizer=keras.optimizers.Adam(0.05), run_eagerly=True)
    before = task.generate(SOURCES)
    losses = task.fit(SOURCES, TARGETS, epochs=4, verbose=0).history["loss"]
    assert losses[-1] < 0.8 * losses[0]
    assert task.generate(SOURCES) == task.translator()(SOURCES) != before


@pytest.mark.slow
@pytest.mark.parametrize("is_validation", [False, True])
def test_any_form_of_pairs_gives_the_same_batches(is_validation, monkeypatch):
    task = make_task()
    given = {}

    def fit(self, x, y, batch_size, sample_weight, validation_data, **kwargs):
        assert y is batch_size is sample_weight is None
        given.update(data=validation_data if is_validation else x, shuffle=kwargs["shuffle"])

    monkeypatch.setattr(keras_hub.models.Seq2SeqLM, "fit", fit)
    arrays = (np.array(SOURCES), np.array(TARGETS))
    expected = None
    for x, y in ((SOURCES, TARGETS), (PAIRS, None), arrays, map(tf.constant, arrays)):
        validation = (PAIRS if y is None else (x, y)) if is_validation else None
        task.fit(x, y, 3, validation_data=validation, shuffle=False)
        assert given["shuffle"] is False
        batches = [task.preprocess_samples(*data) if isinstance(data, tuple) else
                   task.preprocess_samples(data) for data in given["data"]]  # fmt: skip
        assert [len(labels) for _, labels, _ in batches] == [3, 1]
        expected = expected or batches
        tf.nest.map_structure(np.testing.assert_array_equal, batches, expected)


@pytest.mark.slow
def test_pairs_are_shuffled_together(monkeypatch):
    """Every epoch has another order of the same pairs."""
    given = {}
    monkeypatch.setattr(
        keras_hub.models.Seq2SeqLM, "fit", lambda self, x, *_, **options: given.update(options, x=x)
    )
    make_task().fit(list("abcdefgh"), list("ABCDEFGH"), batch_size=3)
    assert given["shuffle"] is False  # by Keras, which would warn
    epochs = []
    for _ in range(3):
        batches = list(given["x"].as_numpy_iterator())
        epochs.append(b"".join(pair for batch in batches for pair in np.char.add(*batch)).decode())
    assert len(set(epochs)) > 1
    for epoch in epochs:
        pairs = [epoch[place : place + 2] for place in range(0, 16, 2)]
        assert sorted(pairs) == ["aA", "bB", "cC", "dD", "eE", "fF", "gG", "hH"]


@pytest.mark.slow
def test_weights_of_pairs_count(task):
    whole = task.evaluate(SOURCES, TARGETS, sample_weight=[1.0, 0.0, 1.0, 1.0], verbose=0)[0]
    inputs, labels, _ = task.preprocessor(PAIRS)
    logits = np.asarray(task(inputs))
    rows = [0, 2, 3]
    part = numpy_loss(logits[rows], labels.numpy()[rows])
    tokens = [np.count_nonzero(labels.numpy()[row]) for row in range(4)]
    share = sum(tokens[row] for row in rows) / sum(tokens)
    assert whole == pytest.approx(part * share, rel=1e-5)


@pytest.mark.exhaustive
@pytest.mark.slow
def test_mixed_precision_trains(tmp_path):
    write_model_dir(tmp_path / "model", norm_position="pre")
    task = TransformerSeq2SeqLM.from_model_dir(tmp_path / "model", dtype="mixed_bfloat16")
    task.compile(optimizer=keras.optimizers.Adam(0.02), run_eagerly=True)
    losses = task.fit(SOURCES, TARGETS, epochs=2, verbose=0).history["loss"]
    assert losses[-1] < losses[0]
    assert {weight.dtype for weight in task.weights} == {"float32"}
    assert task.backbone.compute_dtype == "bfloat16"
    assert type(task.backbone) is TransformerBackbone


@pytest.mark.slow
def test_a_summary_counts_each_parameter_once():
    task = make_task()
    counts = [layer.count_params() for layer in task.layers]
    assert sum(counts) == task.count_params() == task.backbone.count_params()
