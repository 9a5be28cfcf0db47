"""What the page offers for the signatures that a server claims to have."""

import pytest

from export.web.offers import find_offers
from tests.export.web.translating import BEAM_SIZE, OPTIONS, make_behaviour
from tf_transformer.decoding.search_options import SEARCH_OPTIONS
from tf_transformer.predictors.signature import Signature, TensorSpec


def signatures():
    return {
        name: Signature(
            *(
                {key: TensorSpec(kind, (None, *shape)) for key, (kind, shape) in specs.items()}
                for specs in sides
            )
        )
        for name, sides in make_behaviour().specs.items()
    }


def test_an_export():
    offered = find_offers(signatures(), {})
    tasks = {"translate": "serving_default", "nbest": "nbest", "align": "align"}
    assert offered.plain == tasks
    assert offered.with_options == {task: f"{task}_options" for task in tasks}
    assert offered.options == SEARCH_OPTIONS
    assert offered.num_best == BEAM_SIZE


def test_nothing():
    offered = find_offers({}, {})
    assert not any(map(offered.has, ("translate", "nbest", "align")))
    assert (offered.options, offered.num_best) == ((), 1)


def test_search_options_of_the_command():
    """They are shown as what an empty field means; the beam size is the largest, too."""
    beam_size, length_penalty, *others = find_offers(
        signatures(), {"beam_size": 2, "length_penalty": 0.0}
    ).options
    assert (beam_size.unset_meaning, beam_size.largest) == ("2", 2)
    assert (length_penalty.unset_meaning, length_penalty.largest) == ("0", 10.0)
    assert tuple(others) == SEARCH_OPTIONS[2:]
    for beam_size, num_best in ((2, 2), (BEAM_SIZE + 1, BEAM_SIZE)):
        assert find_offers(signatures(), {"beam_size": beam_size}).num_best == num_best


def test_an_older_export_has_fewer_options():
    found = signatures()
    for name in ("translate_options", "nbest_options", "align_options"):
        del found[name].inputs["coverage_penalty"]
    assert [option.name for option in find_offers(found, {}).options] == list(OPTIONS)[:-1]
    del found["align_options"].inputs["beam_size"]
    assert [option.name for option in find_offers(found, {}).options] == list(OPTIONS)[1:-1]


WRONG = {
    "another input": ("inputs", "prefix", TensorSpec("DT_STRING", (None,))),
    "ids for text": ("inputs", "text", TensorSpec("DT_INT32", (None,))),
    "text in rows": ("inputs", "text", TensorSpec("DT_STRING", (None, 2))),
    "text of any shape": ("inputs", "text", TensorSpec("DT_STRING", None)),
    "a score in words": ("outputs", "score", TensorSpec("DT_STRING", (None,))),
    "a score of any shape": ("outputs", "score", TensorSpec("DT_FLOAT", None)),
    "scores": ("outputs", "score", TensorSpec("DT_FLOAT", (None, 2))),
}


@pytest.mark.parametrize("name", WRONG)
def test_signatures_of_other_models_are_ignored(name):
    side, key, spec = WRONG[name]
    found = signatures()
    getattr(found["serving_default"], side)[key] = spec
    assert "translate" not in find_offers(found, {}).plain


def test_an_option_of_another_type():
    found = signatures()
    found["translate_options"].inputs["beam_size"] = TensorSpec("DT_FLOAT", (None,))
    assert "translate" not in find_offers(found, {}).with_options


def test_a_missing_output():
    found = signatures()
    del found["nbest"].outputs["num_tokens"], found["nbest_options"].outputs["num_tokens"]
    assert not find_offers(found, {}).has("nbest")
    assert find_offers(found, {}).num_best == 1
