"""The numbers of the page of `attention` against the model, and what it refuses."""

import base64
import json
import re
import zlib

import numpy as np
import pytest

from tests.tf_transformer.formats.random_model import (
    SOURCES,
    train_vocabularies,
    write_random_model,
)
from tests.training.report.explained import make_sentence
from tf_transformer.__main__ import main
from tf_transformer.errors import InputError
from tf_transformer.inference.translator import Translator
from tf_transformer.text.special_ids import BEGIN_ID, END_ID
from training.plots.attention_maps import PARTS
from training.plots.recorded_search import Candidate, SearchTree
from training.report import attention_report
from training.report.attention_report import (
    LEVELS,
    attention_page,
    explain,
    num_weights,
    pack_weights,
)
from training.report.search_steps import MAX_STEPS, search_data

VARIANTS = {
    "paper": {},
    "T5": dict(relative_positions="buckets", positions="none", norm_type="rms", dense_bias=False),
    "relative": dict(relative_positions="keys_values", norm_position="pre"),
    "recurrent": dict(decoder_autoregression="ssru"),
    "sides": dict(decoder=dict(num_heads=2, cross_num_heads=8)),
}


SMALL = dict(num_encoder_layers=1, num_decoder_layers=2, logits_bias=True)


def write_model(folder, **settings):
    write_random_model(folder, train_vocabularies(True), end_bias=5.0, **(SMALL | settings))


def data_of(page):
    found = re.search('<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)
    return json.loads(found[1])


def unpack(packed, rows, columns):
    raw = np.frombuffer(zlib.decompress(base64.b64decode(packed["bytes"])), np.uint8)
    heads = raw.reshape(-1, rows, columns) / LEVELS
    return np.split(heads, np.cumsum(packed["heads"])[:-1])


@pytest.mark.slow
@pytest.mark.representatives("recurrent", "sides")
@pytest.mark.parametrize("variant", VARIANTS)
def test_the_page_has_the_weights_of_the_model_and_its_n_best(variant, tmp_path):
    write_model(tmp_path / "model", **VARIANTS[variant])
    translator = Translator.load(
        tmp_path / "model", beam_size=3, max_length_factor=0, max_length_constant=6
    )
    (explained,) = explain(translator, SOURCES[:1])
    page = attention_page([explained], beam_size=3, length_penalty=0.6)
    data = data_of(page)
    (sentence,) = data["sentences"]
    # Another search, as `translate` runs it.
    source = translator.source_tokenizer.tokenize(SOURCES[:1])
    expected = translator.search.run(source, num_best=3)
    ids = [*source[0].numpy().tolist(), END_ID]
    target = [BEGIN_ID, *expected.ids[0, 0, : expected.lengths[0, 0]].numpy().tolist()]
    pieces = translator.target_tokenizer.pieces
    assert sentence["text"] == SOURCES[0]
    assert sentence["source"] == [translator.source_tokenizer.pieces[x] for x in ids]
    assert sentence["target"] == [pieces[x] for x in target]
    assert sentence["next"] == [*sentence["target"][1:], "</s>"]
    # The weights, to half a step.
    inputs = {"source": np.array([ids]), "target": np.array([target])}
    attention = translator.model.states(inputs).attention
    assert sentence["weights"].keys() == {x for x in PARTS if getattr(attention, x)}
    for name, packed in sentence["weights"].items():
        sides = (len(sentence[side]) for side in PARTS[name])
        layers = getattr(attention, name)
        for found, layer in zip(unpack(packed, *sides), layers, strict=True):
            np.testing.assert_allclose(found, layer[0], atol=0.5 / LEVELS + 1e-6)
    total = sum(np.size(layer) for part in attention for layer in part)
    assert num_weights(translator.model.config, len(ids), len(target)) == total
    # The hypotheses that ended, and what the tree has of them.
    search = sentence["search"]
    texts = translator.target_tokenizer.detokenize(expected.ids[0]).numpy().tolist()
    assert sentence["translations"] == [text.decode() for text in texts]
    lengths, scores, log_probs, nodes = zip(*search["finished"], strict=True)
    np.testing.assert_array_equal(lengths, expected.lengths[0] + 1)
    np.testing.assert_allclose(scores, expected.scores[0], atol=2e-5)
    np.testing.assert_allclose(log_probs, expected.log_probs[0], atol=2e-5)
    assert _path(search["nodes"], nodes[0]) == [None, *sentence["target"][1:], "</s>"]
    assert search["nodes"][nodes[0]][3:] == [log_probs[0], scores[0]]
    assert search["numSteps"] == len(search["steps"])
    has_decoder = variant != "recurrent"
    assert [part["isThere"] for part in data["parts"]] == [True, has_decoder, True]
    assert ("is recurrent (SSRU)" in page) != has_decoder


def _path(nodes, index):
    pieces = []
    while index is not None:
        pieces.insert(0, nodes[index][1])
        index = nodes[index][0]
    return pieces


def test_weights_are_rounded_to_the_nearest_step():
    weights = np.random.default_rng(0).dirichlet(np.full(7, 0.2), (2, 5)).astype("float32")
    weights[0, 0] = [1, 0, 0, 0, 0, 0, 0]
    (found,) = unpack(pack_weights([weights]), 5, 7)
    np.testing.assert_allclose(found, weights, atol=0.5 / LEVELS + 1e-7)
    assert found[0, 0].tolist() == [1, 0, 0, 0, 0, 0, 0]


def test_a_long_search_is_cut():
    """And no branch of a branch is too deep for the recursion that places it."""

    def step(length):
        best, other = (4,) * length, (*(4,) * (length - 1), 5)
        return [Candidate(ids, -1.0, -length, None, True) for ids in (best, other)]

    num_steps = MAX_STEPS + 100
    ended = Candidate(((4,) * num_steps + (3,)), -1.0, -num_steps - 1, -5.0, True)
    steps = [*map(step, range(1, num_steps + 1)), [ended]]
    pieces = ["<pad>", "<unk>", "<s>", "</s>", "a", "b"]
    tree = SearchTree({}, {ended.ids[:-1]: -5.0}, pieces, steps)
    data = search_data(tree, beam_size=2)
    assert len(data["steps"]) == MAX_STEPS and data["numSteps"] == num_steps + 1
    assert len(data["nodes"]) == 1 + 2 * MAX_STEPS
    assert data["finished"] == [[num_steps + 1, -5.0, -num_steps - 1, None]]
    assert len(search_data(tree, beam_size=1000)["steps"]) == 5


def test_texts_are_data():
    texts = ["</script><b>x", "<!--<script>", "a \u202e b", "{{ 1 }}"]
    page = attention_page([make_sentence(texts, texts)], beam_size=2, length_penalty=0.6)
    assert page.count("</script>") == 2
    assert "<b>x" not in page and "<!--" not in page
    (sentence,) = data_of(page)["sentences"]
    assert sentence["source"] == [*texts, "</s>"] and sentence["text"] == " ".join(texts)


@pytest.fixture(scope="module")
def model_dir(tmp_path_factory):
    folder = tmp_path_factory.mktemp("attention") / "model"
    write_model(folder)
    return folder


@pytest.mark.slow
def test_the_command(model_dir, tmp_path, capsys):
    command = ["attention", "--model-dir", str(model_dir), "--beam-size", "2"]
    command += ["--part", "encoder", "--output", str(tmp_path / "page.html")]
    command += ["--text", *SOURCES[:2]]
    assert main(command) == 0
    *translations, last = capsys.readouterr().out.splitlines()
    assert last == f"Attention: {tmp_path / 'page.html'}"
    assert translations == Translator.load(model_dir, beam_size=2)(SOURCES[:2])
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    data = data_of(page)
    assert data["part"] == "encoder"
    assert [sentence["translations"][0] for sentence in data["sentences"]] == translations
    assert f"<li>model: {model_dir}</li>" in page and "<li>beam: 2</li>" in page


@pytest.mark.slow
def test_too_many_weights(model_dir, monkeypatch):
    monkeypatch.setattr(attention_report, "MAX_WEIGHTS", 100)
    translator = Translator.load(model_dir, beam_size=1)
    message = r"^A page holds at most 100 attention weights\. Received .* [0-9,]+\. Give shorter"
    with pytest.raises(InputError, match=message):
        explain(translator, SOURCES[:1])


def test_a_picture_shows_one_sentence(model_dir, tmp_path, capsys):
    command = ["attention", "--model-dir", str(model_dir), "--text", "a", "b", "--output"]
    assert main([*command, str(tmp_path / "a.png")]) == 2
    error = capsys.readouterr().err
    assert "--text: a picture shows one sentence, got 2" in error and error.count("\n") == 1
