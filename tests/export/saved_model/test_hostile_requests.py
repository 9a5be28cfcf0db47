"""Hostile and heavy use of a loaded SavedModel: any bytes, any numbers, any batch, many at once.

All of it with the ordinary search, and with one that XLA compiles.
"""

import concurrent.futures
import ctypes
import dataclasses
import gc
import itertools
import multiprocessing
import pathlib
import resource
import sys

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from export.saved_model.signatures import ServedTranslator
from tf_transformer.inference.translator import Translator
from tf_transformer.storage.model_dir import load_model

NAMES = [
    *("serving_default", "translate_options", "complete_options", "tokens_options"),
    *("score", "sample", "sample_epsilon", "terms"),
]

# What stands beside the hostile: two rows of every input.
SENTENCES = (b"Laura saw 3 lamps in the garden.", b"3 eggs")
CALM = {
    "text": SENTENCES,
    "source": SENTENCES,
    "target": (b"Laura sah 3 Lampen im Garten.", b"3 Eier"),
    "prefix": (b"", b"Ein"),
    "terms": (b"lamps\tStuhl\ngarden\tHaus 7", b""),
    "protect": (8, 0),
    "ids": ([27, 9, 100, 55, 8, 61], [9, 30, 31]),
    "beam_size": (0, 2),
    "length_penalty": (-1.0, 1.0),
    "max_length": (9, 0),
    "min_length": (0, 1000),  # as long as its own source allows
    "no_repeat_ngram": (0, 2),
    "coverage_penalty": (0.0, 0.2),
    "temperature": (1.0, 0.7),
    "top_k": (0, 10),
    "top_p": (0.0, 0.9),
    "epsilon": (0.0, 0.1),
    "seed": (1, 2),
}

LONGEST = 10_000
UNICODE = st.text(st.characters(exclude_categories=()), max_size=100).map(
    lambda text: text.encode("utf-8", "surrogatepass")
)
REPEATED = st.builds(
    lambda pattern, length: (pattern * length)[:length],
    st.binary(max_size=8) | UNICODE,
    st.integers(0, LONGEST),
)
TEXT = st.binary(max_size=200) | UNICODE | REPEATED
INTEGER = st.integers(-(2**31), 2**31 - 1) | st.integers(-2, 50)
FLOAT = st.floats(width=32) | st.sampled_from([0.0, 0.5, 1.0, 2.0])
HOSTILE = {
    **dict.fromkeys(("text", "source", "target", "prefix"), TEXT),
    "terms": st.lists(TEXT | st.just(b"\t"), max_size=9).map(b"".join)
    | st.lists(st.tuples(st.just(b"") | TEXT, TEXT).map(b"\t".join), max_size=20).map(b"\n".join),
    "protect": INTEGER,
    "ids": st.lists(INTEGER | st.integers(0, 400), max_size=60),
    **dict.fromkeys(("beam_size", "max_length", "min_length", "no_repeat_ngram", "top_k"), INTEGER),
    **dict.fromkeys(("length_penalty", "coverage_penalty", "temperature"), FLOAT),
    **dict.fromkeys(("top_p", "epsilon"), FLOAT),
    "seed": st.integers(-(2**63), 2**63 - 1),
}

# Batches of up to 12 rows are searched compiled, but not with these options.
SHAPE = (12, 40)
NEVER_COMPILED = {"no_repeat_ngram": 0, "coverage_penalty": 0.0}


@dataclasses.dataclass
class Served:
    """A SavedModel as a server has it, and what it is sent."""

    path: pathlib.Path
    signatures: dict
    calm: dict
    hostile: dict

    def calm_rows(self, name):
        inputs = inputs_of(self.signatures[name])
        return [{name: self.calm[name][number] for name in inputs} for number in (0, 1)]

    def hostile_rows(self, name):
        inputs = inputs_of(self.signatures[name])
        return st.fixed_dictionaries({name: self.hostile[name] for name in inputs})


@pytest.fixture(
    scope="module",
    params=["ordinary", pytest.param("compiled", marks=[pytest.mark.slow, pytest.mark.exhaustive])],
)
def served(request, talkative, exported, loaded, tmp_path_factory):
    if request.param == "ordinary":
        return Served(exported / "1", loaded, CALM, HOSTILE)
    path = tmp_path_factory.mktemp("hostile") / "1"
    calm = CALM | {name: (value, value) for name, value in NEVER_COMPILED.items()}
    hostile = HOSTILE | {name: st.just(value) for name, value in NEVER_COMPILED.items()}
    hostile["max_length"] = st.integers(-(2**31), 50)
    translator = Translator(*load_model(talkative), compiled_shapes=[SHAPE])
    translator = ServedTranslator(translator, NAMES)
    tf.saved_model.save(translator, str(path), signatures=translator.functions)
    return Served(path, tf.saved_model.load(str(path)).signatures, calm, hostile)


@pytest.fixture(scope="module")
def alone(served, loaded):
    """What each of the calm rows gets alone, without XLA, by signature."""
    return {name: [ask(loaded[name], [row]) for row in served.calm_rows(name)] for name in NAMES}


@pytest.fixture(scope="module")
def sentences(corpus):
    return (corpus.directory / "test.en").read_bytes().splitlines()


def inputs_of(function):
    positional, keywords = function.structured_input_signature
    return {spec.name: spec for spec in positional} | keywords


def ask(function, rows):
    """The outputs of a signature for rows of `{input: value}`."""
    inputs = {}
    for name, spec in inputs_of(function).items():
        values, shape = [row[name] for row in rows], (len(rows),)
        if name == "ids":
            shape = (len(rows), spec.shape[1])
            values = [(ids + [0] * shape[1])[: shape[1]] for ids in values]
        array = np.array(values, spec.dtype.as_numpy_dtype).reshape(shape)
        inputs[name] = tf.constant(array, spec.dtype)
    return {name: values.numpy() for name, values in function(**inputs).items()}


def check(answer, count, expected):
    """One answer a row, of numbers and of UTF-8; some rows have what is expected of them.

    Args:
        answer: of a signature.
        count: rows that were sent.
        expected: answer of a single row, by the row's place.
    """
    for name, values in answer.items():
        assert len(values) == count
        if values.dtype == object:
            for text in values:
                text.decode()
        else:
            assert np.isfinite(values).all()
        for place, single in expected.items():
            if values.dtype.kind == "f":
                np.testing.assert_allclose(values[place], single[name][0], rtol=1e-3, atol=1e-4)
            else:
                np.testing.assert_array_equal(values[place], single[name][0])


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=7, deadline=None)
@given(data=st.data())
def test_whatever_comes_is_answered_and_leaves_other_rows_alone(served, alone, name, data):
    rows = data.draw(st.lists(served.hostile_rows(name), max_size=10))
    rows *= data.draw(st.sampled_from([1] * 9 + [50]))
    place = data.draw(st.integers(0, len(rows)))
    rows[place:place] = served.calm_rows(name)
    answer = ask(served.signatures[name], rows)
    check(answer, len(rows), dict(enumerate(alone[name], place)))


@pytest.mark.parametrize("length_penalty", [0.0, 0.6, 1.0, 3.0, 1e30, np.inf, np.nan])
def test_a_long_prefix_under_any_length_penalty(served, length_penalty):
    function = served.signatures["complete_options"]
    rows = [
        row | {"text": text, "prefix": b"Der Zug nach Wien " * repeats}
        for row, text in zip(served.calm_rows("complete_options"), (SENTENCES[0], b""), strict=True)
        for repeats in (1, 2, 3)
    ]
    answer = ask(function, [row | {"length_penalty": length_penalty} for row in rows])
    check(answer, len(rows), {})
    for row, translation in zip(rows, answer["translation"], strict=True):
        if row["text"]:
            assert translation.startswith(row["prefix"].strip())
        else:
            assert translation == b""


@pytest.mark.slow
@pytest.mark.parametrize("count", [0, 1, 12, 512])
@pytest.mark.parametrize("name", NAMES)
def test_any_batch(served, alone, name, count):
    rows = list(itertools.islice(itertools.cycle(served.calm_rows(name)), count))
    expected = {place: alone[name][place % 2] for place in range(count)}
    check(ask(served.signatures[name], rows), count, expected)


@pytest.mark.slow
def test_510_long_texts_beside_two_short_ones(served, alone):
    rows = [{"text": bytes([place % 256]) * LONGEST} for place in range(510)]
    rows[9:9] = served.calm_rows("serving_default")
    check(
        ask(served.signatures["serving_default"], rows),
        512,
        dict(enumerate(alone["serving_default"], 9)),
    )


@pytest.mark.representatives("complete_options")
@pytest.mark.slow
@pytest.mark.parametrize("name", ["serving_default", "complete_options"])
def test_concurrent_callers_get_what_they_get_alone(served, sentences, name):
    """Each of 8 callers has sentences of its own, in requests of 1 to 4 of them."""
    function = served.signatures[name]

    def call(number):
        texts, calm = sentences[number::8], itertools.cycle(served.calm_rows(name))
        rows = [row | {"text": text} for text, row in zip(texts, calm, strict=False)]
        return [ask(function, rows[size : 2 * size]) for size in (1, 4, 2, 3, 1)]

    expected = [call(number) for number in range(8)]
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        found = list(pool.map(call, range(8)))
    for caller, size in itertools.product(range(8), range(5)):
        wanted = expected[caller][size]
        count = len(wanted["score"])
        rows = {n: {key: part[n : n + 1] for key, part in wanted.items()} for n in range(count)}
        check(found[caller][size], count, rows)


@pytest.mark.exhaustive
@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_memory_stays_flat(served, sentences, monkeypatch):
    """In a fresh process, once every shape has been seen.

    Without oneDNN, whose kernels of up to 1024 shapes stay in memory, in every thread its own, and
    with one arena of the heap, or both would hide a leak of a few megabytes.
    """
    monkeypatch.setenv("TF_ENABLE_ONEDNN_OPTS", "0")
    monkeypatch.setenv("MALLOC_ARENA_MAX", "1")
    random = np.random.default_rng(0)
    requests = [
        [
            *random.choice(sentences, random.integers(1, 9)),
            *(random.bytes(4) * (LONGEST // 4) for _ in range(4)),
        ]
        for _ in range(30)
    ]
    context = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(1, mp_context=context) as pool:
        megabytes = pool.submit(measure_memory, served.path, requests).result()
    assert megabytes[-1] - megabytes[0] < 1


def measure_memory(saved_model, requests):
    """Resident megabytes after each of four rounds of the same requests."""
    function = tf.saved_model.load(str(saved_model)).signatures["serving_default"]
    megabytes = []
    for _ in range(4):
        for texts in requests:
            ask(function, [{"text": text} for text in texts])
        gc.collect()
        ctypes.CDLL(None).malloc_trim(0)  # what is free but kept does not count
        pages = int(pathlib.Path("/proc/self/statm").read_text().split()[1])
        megabytes.append(pages * resource.getpagesize() / 2**20)
    return megabytes
