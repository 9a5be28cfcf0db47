"""Every signature of an export: what it promises, row by row."""

import numpy as np
import pytest
import tensorflow as tf

from export.saved_model.signature_names import OPTIONAL, SIGNATURES
from export.saved_model.signatures import ServedTranslator
from tests.tf_transformer.inference.test_translator import ODD
from tf_transformer.decoding.search_options import SEARCH_OPTIONS
from tf_transformer.inference.translator import Translator
from tf_transformer.storage.model_dir import load_model
from tf_transformer.tasks.table import TASK_OF

DEFAULTS = dict(
    beam_size=0,
    length_penalty=-1.0,
    max_length=0,
    min_length=0,
    no_repeat_ngram=0,
    coverage_penalty=0.0,
)


@pytest.fixture(scope="module")
def translator(talkative):
    return Translator(*load_model(talkative))


@pytest.fixture(
    scope="module",
    params=["ordinary", pytest.param("compiled", marks=[pytest.mark.slow, pytest.mark.exhaustive])],
)
def searched(request, loaded, talkative):
    """The signatures, also with a search that XLA compiles for all batches of the tests."""
    if request.param == "ordinary":
        return loaded
    translator = Translator(*load_model(talkative), compiled_shapes=[(32, 40)])
    return ServedTranslator(translator, [*NAMES, "tokens_options", "score"]).functions


@pytest.fixture(scope="module")
def sentences(corpus):
    return (corpus.directory / "test.en").read_bytes().splitlines()[:24]


def inputs_of(function):
    positional, keywords = function.structured_input_signature
    return {spec.name: spec for spec in positional} | keywords


def ask(signatures, name, **inputs):
    """The answer of a signature; options are scalars or lists."""
    function = signatures[name]
    rows = len(inputs.get("text", inputs.get("source", inputs.get("ids"))))
    if name.endswith("_options"):
        inputs = DEFAULTS | inputs
    values = {
        key: tf.constant(np.broadcast_to(inputs[key], (rows, *spec.shape[1:])), spec.dtype)
        for key, spec in inputs_of(function).items()
    }
    return {key: value.numpy() for key, value in function(**values).items()}


def tokens(translator, texts):
    return translator.target_tokenizer.tokenize(tf.constant(texts)).to_list()


def test_names():
    assert sorted(SIGNATURES) == sorted(
        [
            *("serving_default", "translate_options", "nbest", "nbest_options", "align"),
            *("align_options", "complete", "complete_options", "tokens", "tokens_options"),
            *("score", "sample"),
        ]
    )


@pytest.mark.slow
def test_what_is_exported(loaded):
    assert {*loaded} == {*TASK_OF} - {"adapted", "continuation"}
    assert {*SIGNATURES, *OPTIONAL} < {*loaded}
    options = {option.name for option in SEARCH_OPTIONS}
    assert all(
        inputs_of(function).keys() >= options
        for name, function in loaded.items()
        if name.endswith("_options")
    )


def test_unknown_names_are_refused(translator):
    with pytest.raises(
        ValueError, match=r"Expected one of all, serving_default, .*Received: 'bset'"
    ):
        ServedTranslator(translator, ["bset"])


@pytest.mark.slow
def test_no_options_are_the_exported_ones(loaded, sentences):
    plain = ask(loaded, "serving_default", text=sentences)
    for options in ({}, dict(beam_size=99)):
        same = ask(loaded, "translate_options", text=sentences, **options)
        assert same["translation"].tolist() == plain["translation"].tolist()
        np.testing.assert_allclose(same["score"], plain["score"], rtol=1e-4)


@pytest.mark.slow
def test_options_of_each_row_are_those_of_a_translator(searched, talkative, sentences):
    """Rows with different wishes in one batch, against translators that are made for each."""
    wishes = [(1, 0.0), (2, 1.0), (3, 0.6)]
    answer = ask(
        searched,
        "translate_options",
        text=sentences,
        beam_size=[wishes[row % 3][0] for row in range(len(sentences))],
        length_penalty=[wishes[row % 3][1] for row in range(len(sentences))],
    )
    for first, (beam_size, length_penalty) in enumerate(wishes):
        own = Translator(
            *load_model(talkative), beam_size=beam_size, length_penalty=length_penalty
        ).translate(tf.constant(sentences[first::3]))
        assert answer["translation"][first::3].tolist() == own.text[:, 0].numpy().tolist()
        np.testing.assert_allclose(answer["score"][first::3], own.scores[:, 0], rtol=1e-4)


def test_lengths(searched, translator, sentences):
    ids = source_ids(translator, sentences)
    short = ask(searched, "tokens_options", ids=ids, max_length=3)
    assert short["num_tokens"].max() == 3
    assert short["num_tokens"].min() >= 0
    long = ask(searched, "tokens_options", ids=ids, min_length=9, max_length=12)
    assert long["num_tokens"].min() >= 9
    assert long["num_tokens"].max() <= 12


def source_ids(translator, sentences):
    ids = translator.source_tokenizer.tokenize(tf.constant(sentences))
    return ids.to_tensor(0, shape=(None, translator.source_limit)).numpy()


@pytest.mark.parametrize("size", [1, 2, 3])
def test_no_ngram_twice(loaded, translator, sentences, size):
    ids = source_ids(translator, sentences)
    found = ask(loaded, "tokens_options", ids=ids, no_repeat_ngram=[size, 0] * 12, min_length=14)
    repeats = []
    for row, length in zip(found["ids"], found["num_tokens"], strict=True):
        grams = [tuple(row[i : i + size]) for i in range(length - size + 1)]
        repeats.append(len(grams) - len(set(grams)))
    assert not any(repeats[::2])
    assert any(repeats[1::2])  # else the test shows nothing


def test_coverage_penalty_counts_what_was_not_looked_at(loaded, sentences):
    plain = ask(loaded, "nbest_options", text=sentences, length_penalty=0.0)
    covered = ask(loaded, "nbest_options", text=sentences, length_penalty=0.0, coverage_penalty=0.5)
    scores = [
        dict(zip(answer["translations"][row].tolist(), answer["scores"][row], strict=True))
        for answer in (plain, covered)
        for row in range(len(sentences))
    ]
    both = [
        (before[text], after[text])
        for before, after in zip(scores[: len(sentences)], scores[len(sentences) :], strict=True)
        for text in before.keys() & after.keys()
        if before[text] > -1e9 and after[text] > -1e9
    ]
    assert len(both) > 20
    assert all(after <= before for before, after in both)
    # The penalty is 0 where every piece was looked at: of few hypotheses.
    assert sum(after < before for before, after in both) > 0.9 * len(both)


@pytest.mark.slow
def test_nbest(loaded, talkative, sentences):
    answer = ask(loaded, "nbest", text=sentences)
    expected = Translator(*load_model(talkative), num_best=4).translate(tf.constant(sentences))
    assert answer["translations"].tolist() == expected.text.numpy().tolist()
    np.testing.assert_allclose(answer["scores"], expected.scores, rtol=1e-4)
    assert (np.diff(answer["scores"], axis=1) <= 0).all()
    narrow = ask(loaded, "nbest_options", text=sentences, beam_size=2)
    assert np.isfinite(narrow["scores"][:, :2]).all()
    assert (narrow["scores"][:, 2:] == -1e9).all()
    assert (narrow["translations"][:, 2:] == b"").all()


@pytest.mark.slow
def test_alignment(loaded, translator, sentences):
    answer = ask(loaded, "align", text=[*sentences, b""])
    plain = ask(loaded, "serving_default", text=[*sentences, b""])
    assert answer["translation"].tolist() == plain["translation"].tolist()
    for row, text in enumerate(sentences):
        source = answer["source_pieces"][row].decode().split(" ")
        target = answer["target_pieces"][row].decode().split(" ")
        assert "".join(source).replace("▁", " ").strip() == text.decode()
        assert "".join(target).replace("▁", " ").strip() == plain["translation"][row].decode()
        pairs = [
            tuple(map(int, pair.split(b"-"))) for pair in answer["hard_alignment"][row].split()
        ]
        assert [j for _, j in pairs] == list(range(len(target)))
        weights = np.array(
            [word.split(b",") for word in answer["soft_alignment"][row].split()], float
        )
        assert weights.shape == (len(target), len(source) + 1)
        np.testing.assert_allclose(weights.sum(axis=1), 1.0, atol=1e-2)
        # Written with three decimals: a tie may go either way.
        chosen = weights[range(len(pairs)), [i for i, _ in pairs]]
        assert (chosen >= weights[:, :-1].max(axis=1) - 1e-3).all()
    for name in ("source_pieces", "target_pieces", "hard_alignment", "soft_alignment"):
        assert answer[name][-1] == b""


def test_scores_are_those_of_the_search(loaded, sentences):
    found = ask(loaded, "nbest_options", text=sentences, length_penalty=0.0)
    scored = ask(loaded, "score", source=sentences, target=found["translations"][:, 0].tolist())
    np.testing.assert_allclose(scored["log_prob"], scored["token_log_probs"].sum(axis=1), rtol=1e-5)
    # Where tokenizing the translation gives the tokens that were searched, which is nearly always.
    same = scored["num_tokens"] == found["num_tokens"][:, 0] + 1
    close = np.isclose(scored["log_prob"], found["scores"][:, 0], atol=1e-3)
    assert (same & close).mean() > 0.8
    for count, row in zip(scored["num_tokens"], scored["token_log_probs"], strict=True):
        assert (row[:count] < 0).all()
        assert not row[count:].any()


@pytest.mark.slow
def test_completions_begin_with_their_prefix(loaded, sentences):
    plain = ask(loaded, "serving_default", text=sentences)["translation"]
    prefixes = [
        [b"", b"Am Montag", plain[row].rpartition(b" ")[0]][row % 3]
        for row in range(len(sentences))
    ]
    answer = ask(loaded, "complete", text=sentences, prefix=prefixes)
    for text, prefix in zip(answer["translation"], prefixes, strict=True):
        assert text.startswith(prefix)
    assert answer["translation"][::3].tolist() == plain[::3].tolist()
    # Who is given the beginning of the best translation goes on with it.
    assert (answer["translation"][2::3] == plain[2::3]).mean() > 0.6


@pytest.mark.slow
def test_samples(loaded, sentences):
    draw = dict(text=sentences, temperature=1.0, top_k=0, top_p=0.0, seed=np.arange(24))
    first, again = ask(loaded, "sample", **draw), ask(loaded, "sample", **draw)
    assert first["translation"].tolist() == again["translation"].tolist()
    other = ask(loaded, "sample", **draw | dict(seed=np.arange(24) + 1000))
    assert (first["translation"] != other["translation"]).mean() > 0.8
    greedy = ask(loaded, "translate_options", text=sentences, beam_size=1, length_penalty=0.0)
    for options in (dict(temperature=0.0), dict(top_k=1), dict(top_p=1e-6)):
        sampled = ask(loaded, "sample", **draw | options)
        assert sampled["translation"].tolist() == greedy["translation"].tolist()
        np.testing.assert_allclose(sampled["log_prob"], greedy["score"], rtol=1e-3, atol=1e-3)


def test_samples_above_a_probability(loaded, sentences):
    draw = dict(text=sentences, temperature=1.0, epsilon=0.0, seed=np.arange(24))
    first, again = ask(loaded, "sample_epsilon", **draw), ask(loaded, "sample_epsilon", **draw)
    assert first["translation"].tolist() == again["translation"].tolist()
    fewer = ask(loaded, "sample_epsilon", **draw | dict(epsilon=0.2))
    assert (first["translation"] != fewer["translation"]).mean() > 0.5
    assert fewer["log_prob"].mean() > first["log_prob"].mean()
    greedy = ask(loaded, "translate_options", text=sentences, beam_size=1, length_penalty=0.0)
    for options in (dict(temperature=0.0), dict(epsilon=1.5)):
        sampled = ask(loaded, "sample_epsilon", **draw | options)
        assert sampled["translation"].tolist() == greedy["translation"].tolist()
        np.testing.assert_allclose(sampled["log_prob"], greedy["score"], rtol=1e-3, atol=1e-3)


def test_tokens(loaded, translator, sentences):
    answer = ask(loaded, "tokens", ids=source_ids(translator, sentences))
    texts = translator.target_tokenizer.detokenize(tf.constant(answer["ids"])).numpy()
    plain = ask(loaded, "serving_default", text=sentences)
    assert texts.tolist() == plain["translation"].tolist()
    np.testing.assert_allclose(answer["score"], plain["score"], rtol=1e-4)
    assert answer["ids"].shape == (24, translator.source_limit)


@pytest.mark.parametrize("ids", [[-5, 10**9, 7], [0, 5, 6], [], [9] * 1000])
def test_any_ids_are_answered(loaded, translator, ids):
    row = (ids + [0] * 1000)[: translator.source_limit]
    answer = ask(loaded, "tokens", ids=[row, row])
    assert len(answer["ids"]) == 2
    assert np.isfinite(answer["score"]).all()


def test_only_the_batch_differs_between_requests(loaded):
    """A server merges requests along their first axis alone: all others must be of one size."""
    for function in loaded.values():
        for spec in inputs_of(function).values():
            assert spec.shape[:1].as_list() == [None]
            assert spec.shape[1:].is_fully_defined()


NAMES = ["translate_options", "nbest_options", "align_options", "complete_options", "sample"]


@pytest.mark.slow
@pytest.mark.parametrize("name", [*NAMES, "tokens_options", "score"])
def test_rows_do_not_depend_on_the_batch(searched, translator, sentences, request, name):
    """Shuffled, split, among others: each row gets what it gets alone."""
    rng = np.random.default_rng(1)
    texts = np.array([*sentences, *ODD[:4], b""], object)
    count = len(texts)
    inputs = {
        "text": texts,
        "source": texts,
        "target": np.roll(texts, 1),
        "prefix": np.array([[b"", b"Am"][row % 2] for row in range(count)], object),
        "beam_size": np.arange(count) % 5,
        "length_penalty": np.arange(count) % 3 * 0.5,
        "max_length": np.arange(count) % 4 * 5,
        "min_length": np.arange(count) % 3,
        "no_repeat_ngram": np.arange(count) % 4,
        "coverage_penalty": np.arange(count) % 2 * 0.3,
        "temperature": np.full(count, 0.8),
        "top_k": np.arange(count) % 3 * 10,
        "top_p": np.full(count, 0.9),
        "seed": np.arange(count),
        "ids": source_ids(translator, texts),
    }
    if request.node.callspec.params["searched"] == "compiled":  # with these options, no batch is
        for option in ("no_repeat_ngram", "coverage_penalty"):
            inputs[option] = np.zeros(count)
    wanted = inputs_of(searched[name])
    inputs = {key: value for key, value in inputs.items() if key in wanted}
    together = ask(searched, name, **inputs)
    order = rng.permutation(count)
    for part in (order, order[:5], order[5:6], np.array([count - 1])):
        answer = ask(searched, name, **{key: value[part] for key, value in inputs.items()})
        for key, values in answer.items():
            if values.dtype == object and key != "soft_alignment":
                assert values.tolist() == together[key][part].tolist(), key
            elif key != "soft_alignment":
                np.testing.assert_allclose(values, together[key][part], rtol=1e-3, atol=1e-3)


def test_hostile_options_are_answered(loaded, sentences):
    """Whatever a client sends as a number: its row gets an answer, the others get theirs."""
    texts = sentences[:6]
    hostile = dict(
        beam_size=[-(2**31), 2**31 - 1, 0, 1, 4, 2],
        length_penalty=[np.nan, np.inf, -np.inf, 1e30, 0.6, 0.6],
        max_length=[-1, 2**31 - 1, -(2**31), 0, 10, 0],
        min_length=[-(2**31), 2**31 - 1, 0, 100, 0, 0],
        no_repeat_ngram=[-1, 2**31 - 1, -(2**31), 1, 0, 0],
        coverage_penalty=[np.nan, np.inf, -np.inf, 1e30, 0.0, 0.0],
    )
    answer = ask(loaded, "translate_options", text=texts, **hostile)
    calm = ask(
        loaded,
        "translate_options",
        text=texts[4:],
        **{name: values[4:] for name, values in hostile.items()},
    )
    assert answer["translation"][4:].tolist() == calm["translation"].tolist()
    for text in answer["translation"]:
        text.decode()
    sampled = ask(
        loaded,
        "sample",
        text=texts,
        temperature=[np.nan, np.inf, -1.0, 1e-30, 1e30, 1.0],
        top_k=[-1, 2**31 - 1, 0, 1, 5, -(2**31)],
        top_p=[np.nan, np.inf, -1.0, 1e-30, 2.0, 0.5],
        seed=[-1, 2**63 - 1, -(2**63), 0, 1, 2],
    )
    for text in sampled["translation"]:
        text.decode()
    assert np.isfinite(sampled["log_prob"]).all()


def test_what_is_no_number_is_as_good_as_absent(loaded, sentences):
    """An infinite temperature still draws from the best `top_k`, a large penalty still ranks."""
    best = ask(loaded, "sample", text=sentences[:3], temperature=0.0, top_k=0, top_p=0.0, seed=1)
    hot = ask(loaded, "sample", text=sentences[:3], temperature=np.inf, top_k=1, top_p=0.0, seed=1)
    assert hot["translation"].tolist() == best["translation"].tolist()
    one, nan = (
        ask(loaded, "sample", text=sentences[:3], temperature=t, top_k=0, top_p=0.0, seed=1)
        for t in (1.0, np.nan)
    )
    assert nan["translation"].tolist() == one["translation"].tolist()
    large, largest = (
        ask(loaded, "nbest_options", text=sentences[:3], length_penalty=alpha)
        for alpha in (10.0, 1e30)
    )
    np.testing.assert_array_equal(large["scores"], largest["scores"])
    assert (large["scores"][:, 0] < 0).all()
