"""A model directory, a SavedModel and a server: the same tasks, with the same answers."""

import numpy as np
import pytest

from tests.served_functions import behaviour_of
from tests.serving_stub import Behaviour, serve
from tf_transformer.errors import InputError
from tf_transformer.inference.translator import Translator
from tf_transformer.predictors.answers import answer
from tf_transformer.predictors.client import Client
from tf_transformer.predictors.model_predictor import ModelPredictor
from tf_transformer.predictors.saved_model_predictor import SavedModelPredictor
from tf_transformer.predictors.signature import signature_of_task
from tf_transformer.storage.model_dir import load_model
from tf_transformer.tasks.parts import Parts

# Signatures with options answer requests without, too.
NAMES = ["serving_default", "translate_options", "nbest", "document_options", "terms"]
TEXTS = ["The man buys 3 horses.", "", "A woman sleeps. THE DOG RUNS.", "你好 \u202e", "Laura"]
KINDS = ["model directory", "SavedModel", "rest", "grpc"]


@pytest.fixture(scope="module")
def parts(talkative):
    return Parts(Translator(*load_model(talkative)))


@pytest.fixture(scope="module")
def predictors(parts, exported, loaded):
    behaviour = behaviour_of(loaded, NAMES)
    with (
        serve("rest", behaviour) as rest,
        serve("grpc", behaviour) as grpc,
        Client(rest) as client,
        Client(grpc, protocol="grpc") as other_client,
    ):
        found = [ModelPredictor(lambda shapes: parts), SavedModelPredictor(exported)]
        yield dict(zip(KINDS, [*found, client, other_client], strict=True))


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


@pytest.mark.representatives("options", "unset options", "bytes", "n best", "capitals", "terms")
@pytest.mark.slow
@pytest.mark.parametrize("call", CALLS)
def test_the_same_answers(predictors, call):
    task, inputs, options = CALLS[call]
    expected = outputs(predictors["model directory"], task, inputs, options)
    num_rows = len(inputs["text"])
    assert all(len(column) == num_rows for column in expected.values())
    for kind in KINDS[1:]:
        found = outputs(predictors[kind], task, inputs, options)
        assert found.keys() == expected.keys(), kind
        for name, column in found.items():
            if name in ("score", "scores"):
                np.testing.assert_allclose(column, expected[name], atol=1e-5, err_msg=kind)
            elif name != "sentence_scores":  # numbers as text
                assert column == expected[name], (kind, name)
    if call == "terms":
        assert "Hunde" in expected["translation"][0]


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
