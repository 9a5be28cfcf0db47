"""A model directory, a SavedModel and a server: the same tasks, with the same answers."""

import contextlib

import numpy as np
import pytest
import tensorflow as tf

from export.saved_model.signatures import ServedTranslator
from export.saved_model.verification import sample_inputs, sample_texts
from tests.export.saved_model.random_adapters import ADAPTERS, write_adapters
from tests.other_models import language_model
from tests.served_functions import behaviour_of, load_signatures, saved_model_predictor
from tests.serving_stub import Behaviour, serve
from tests.tf_transformer.language_id.reference import random_classifier
from tf_transformer.confidence.calibration import Calibration
from tf_transformer.errors import InputError
from tf_transformer.inference.continuer import Continuer
from tf_transformer.inference.translator import Translator
from tf_transformer.language_id.identifier import LanguageIdentifier
from tf_transformer.predictors.answers import answer
from tf_transformer.predictors.client import Client
from tf_transformer.predictors.model_predictor import ModelPredictor
from tf_transformer.predictors.saved_model_predictor import SavedModelPredictor
from tf_transformer.predictors.signature import signature_of_task
from tf_transformer.storage.model_dir import load_model, weights_digest
from tf_transformer.storage.saved_model import write_saved_model
from tf_transformer.storage.trained_models import TrainedModels
from tf_transformer.tasks.parts import Parts
from tf_transformer.tasks.table import TASK_OF, TASKS

# Signatures with options answer requests without, too.
NAMES = ["serving_default", "translate_options", "nbest", "document_options", "terms"]
TEXTS = ["The man buys 3 horses.", "", "A woman sleeps. THE DOG RUNS.", "你好 \u202e", "Laura"]
KINDS = ["model directory", "SavedModel", "rest", "grpc"]


@pytest.fixture(scope="module")
def parts(talkative):
    return Parts(Translator(*load_model(talkative)))


@contextlib.contextmanager
def all_predictors(parts, saved_model, functions, names=None):
    """One of each kind; the servers offer the functions with these names, or all.

    Args:
        parts: of the model directory.
        saved_model: the predictor of the SavedModel.
        functions: its signatures, for the servers.
        names: those of the functions that they offer, or None for all.
    """
    behaviour = behaviour_of(functions, names)
    with (
        serve("rest", behaviour) as rest,
        serve("grpc", behaviour) as grpc,
        Client(rest) as client,
        Client(grpc, protocol="grpc") as other_client,
    ):
        found = [ModelPredictor(lambda shapes: parts), saved_model, client, other_client]
        yield dict(zip(KINDS, found, strict=True))


@pytest.fixture(scope="module")
def predictors(parts, exported, loaded):
    with all_predictors(
        parts, saved_model_predictor(exported / "1", loaded), loaded, NAMES
    ) as found:
        yield found


@pytest.fixture(scope="module")
def with_all_signatures(parts, exported, loaded):
    """Of what needs no further file; with the texts of their verification."""
    with all_predictors(parts, saved_model_predictor(exported / "1", loaded), loaded) as found:
        yield found, loaded, sample_texts(parts.translator.source_tokenizer)


@pytest.fixture(scope="module")
def with_files(talkative, tmp_path_factory):
    """Of a translator with adapters, a calibration and a classifier."""
    folder = tmp_path_factory.mktemp("with_files")
    adapters = tuple(write_adapters(talkative, folder).items())
    loaded = TrainedModels((talkative,), row_adapters=adapters).load("float32")
    files = {
        "calibration": Calibration(0.5, 0.25, weights_digest(talkative)),
        "identifier": LanguageIdentifier(random_classifier()),
    }
    names = ["adapted", "confidence", "language"]
    with saved(Translator(*loaded, beam_size=2), folder / "1", names, files) as found:
        yield found


@pytest.fixture(scope="module")
def of_language_model(corpus, tmp_path_factory):
    model, _, tokenizer = load_model(language_model(corpus, tmp_path_factory))
    folder = tmp_path_factory.mktemp("of_language_model") / "1"
    with saved(Continuer(model, tokenizer, beam_size=2), folder, ["continuation"], {}) as found:
        yield found


@contextlib.contextmanager
def saved(engine, folder, names, files):
    """The predictors of a SavedModel that is written here, its signatures, and texts for them."""
    served = ServedTranslator(engine, names, **files)
    write_saved_model(served, folder, served.functions)
    functions = load_signatures(folder)
    predictor = SavedModelPredictor(folder)
    with all_predictors(Parts(engine, **files), predictor, functions) as found:
        yield found, functions, sample_texts(engine.tokenizers[0])


def outputs(predictor, *arguments, **options):
    columns = {}
    for batch in answer(predictor, *arguments, **options):
        for name, values in batch.items():
            columns.setdefault(name, []).extend(values)
    return columns


CALLS = {
    "plain": ("translate", {"text": TEXTS}, {}),
    "options": ("translate", {"text": TEXTS}, {"beam_size": 2, "min_length": 3}),
    "unset options": ("translate", {"text": TEXTS}, {"beam_size": 0, "length_penalty": None}),
    "bytes": ("translate", {"text": [text.encode() for text in TEXTS] + [b"\xff"]}, {}),
    "n best": ("nbest", {"text": TEXTS}, {}),
    "document": ("document", {"text": TEXTS}, {}),
    "capitals": ("document", {"text": TEXTS}, {"keep_capitals": True}),
    "terms": (
        "terms",
        {"text": TEXTS, "terms": ["horses\tHunde"] * 5, "protect": [8] * 5},
        {"length_penalty": 0.2},
    ),
}


@pytest.mark.representatives("options", "unset options", "bytes", "n best")
@pytest.mark.slow
@pytest.mark.parametrize("call", CALLS)
def test_the_same_answers(predictors, call):
    task, inputs, options = CALLS[call]
    expected = outputs(predictors["model directory"], task, inputs, options)
    num_rows = len(inputs["text"])
    assert all(len(column) == num_rows for column in expected.values())
    for kind in KINDS[1:]:
        found = outputs(predictors[kind], task, inputs, options)
        assert_same(TASKS[task], found, expected, kind)
    if call == "terms":
        assert "Hunde" in expected["translation"][0]


def assert_same(task, found, expected, kind):
    """Compares columns of outputs: numbers up to rounding, all else exactly."""
    assert found.keys() == expected.keys(), kind
    for output in task.outputs:
        column, other = found[output.name], expected[output.name]
        if output.is_numbers:
            column, other = ([*map(numbers, texts)] for texts in (column, other))
        if output.dtype == "float32" or output.is_numbers:
            for row, values in zip(column, other, strict=True):
                np.testing.assert_allclose(row, values, 1e-4, 2e-4, err_msg=f"{kind} {output.name}")
        else:
            assert column == other, (kind, output.name)


def numbers(text):
    return [float(number) for word in text.split() for number in word.split(",")]


# The tasks of which more is needed than a translator, and the fixture that has it.
FIXTURES = {
    **dict.fromkeys(("adapted", "confidence", "language"), "with_files"),
    "continuation": "of_language_model",
}


@pytest.mark.representatives("score", "word_links")
@pytest.mark.slow
@pytest.mark.parametrize("signature", TASK_OF)
def test_every_signature(signature, request):
    """With the inputs with which `export` verifies it: odd texts, and other options in each row."""
    fixture = FIXTURES.get(signature, "with_all_signatures")
    found, functions, texts = request.getfixturevalue(fixture)
    _, specs = functions[signature].structured_input_signature
    named = [tf.TensorSpec(spec.shape, spec.dtype, name) for name, spec in specs.items()]
    arrays = sample_inputs(named, texts, np.arange(len(texts)) % 13, list(ADAPTERS))
    inputs = {name: array.tolist() for name, array in arrays.items()}
    columns = {kind: {} for kind in KINDS}
    for kind in KINDS:
        for batch in found[kind].predict_batches(inputs, signature):
            for name, values in batch.items():
                columns[kind].setdefault(name, []).extend(values)
    expected = columns[KINDS[0]]
    assert all(len(column) == len(texts) for column in expected.values())
    for kind in KINDS[1:]:
        assert_same(TASK_OF[signature], columns[kind], expected, kind)


@pytest.mark.parametrize("kind", KINDS)
def test_signatures(predictors, kind):
    found = predictors[kind].signatures
    for name in NAMES:
        expected = signature_of_task(name)
        for own, others in (
            (found[name].inputs, expected.inputs),
            (found[name].outputs, expected.outputs),
        ):
            assert own.keys() == others.keys()
            assert all(own[key].has_form_of(spec) for key, spec in others.items())


@pytest.mark.parametrize("kind", KINDS)
def test_faults(predictors, kind):
    predictor = predictors[kind]
    if kind in ("rest", "grpc"):  # which offer fewer signatures
        with pytest.raises(
            InputError,
            match=r"no signature 'align' or 'align_options', which --markup needs; export",
        ):
            outputs(predictor, "align", {"text": ["a"]}, needed_by="--markup")
    message = r"no signature 'adapted'.*export it with --adapters"
    with pytest.raises(InputError, match=message):
        outputs(predictor, "adapted", {"text": ["a"], "adapter": ["b"]})
    with pytest.raises(InputError, match="also needs the input 'terms'"):
        outputs(predictor, "terms", {"text": ["a"], "protect": [0]})
    with pytest.raises(InputError, match=r"must contain strings\. Received: 7 in row 2"):
        outputs(predictor, "translate", {"text": ["a", 7]})


@pytest.mark.parametrize(
    ("specs", "message"),
    [
        ({"translation": ("DT_STRING", ())}, r"whose output 'score' is float with 1 axes. .* none"),
        (
            {"translation": ("DT_STRING", (4,)), "score": ("DT_FLOAT", ())},
            r"whose output 'translation' is string with 1 axes\. Received: string with 2 axes",
        ),
    ],
)
def test_another_kind_of_model(specs, message):
    behaviour = Behaviour(specs={"serving_default": ({"text": ("DT_STRING", ())}, specs)})
    with (
        serve("rest", behaviour) as address,
        Client(address) as client,
        pytest.raises(InputError, match=message),
    ):
        outputs(client, "translate", {"text": ["a"]})
