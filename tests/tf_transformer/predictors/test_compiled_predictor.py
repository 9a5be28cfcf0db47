"""A predictor that compiles: for which batches, after how many; and that its answers are equal."""

import shutil

import pytest

from tf_transformer.__main__ import main
from tf_transformer.inference.translator import Translator
from tf_transformer.predictors.answers import answer
from tf_transformer.predictors.model_predictor import ModelPredictor
from tf_transformer.quantization.int8 import quantize
from tf_transformer.storage.model_dir import load_model


@pytest.fixture(scope="module")
def loaded(talkative):
    return load_model(talkative)


class Recorded(Exception):
    """Raised in place of a translation."""


@pytest.fixture
def record(loaded, monkeypatch):
    """The sizes of batches that are computed compiled, after the shapes that are compiled for."""
    monkeypatch.setattr(Translator, "rows_before_compiling", 3)
    calls = []

    def trace(parts, signature):
        shapes = [tuple(shape) for shape in parts.engine.search.compiled_shapes]
        calls.append(("shapes", shapes) if shapes else None)

        def compute(text):
            calls.append(len(text) if shapes else None)
            raise Recorded

        return compute

    monkeypatch.setattr("tf_transformer.predictors.model_predictor.trace", trace)

    def run(sizes, **options):
        calls.clear()
        predictor = ModelPredictor.of_model(*loaded, **options)
        predictor.batch_size = 1024
        for size in filter(None, sizes):
            with pytest.raises(Recorded):
                list(answer(predictor, "translate", {"text": ["a"] * size}))
        return [call for call in calls if call]

    return run


def test_auto_compiles_for_sentences_one_by_one(record):
    singles = ("shapes", [(1, 16), (1, 32)])  # the model's limit is 40
    assert record([1] * 3, xla="auto") == []
    assert record([1] * 5, xla="auto") == [singles, 1, 1]
    assert record([1, 31, 1, 2, 1, 256, 1, 0, 1], xla="auto") == [singles, 1, 1]


def test_auto_never_compiles_for_chunks(record):
    assert record([256, 32, 33] * 5, xla="auto", beam_size=4) == []
    assert record([32, 5, 512] * 5, xla="auto", beam_size=1) == []


def test_on_compiles_at_once(record):
    found = record([1, 31, 0, 40, 1], xla="on", beam_size=4, chunk_size=32)
    singles, chunks = ("shapes", [(1, 16), (1, 32)]), ("shapes", [(32, 16), (32, 32)])
    assert found == [singles, 1, chunks, 40, 1]
    assert record([9, 10], xla="on", chunk_size=10) == [("shapes", [(10, 16), (10, 32)]), 10]


def test_off_and_int8_never_compile(record, talkative, loaded):
    assert record([1] * 9 + [512], xla="off") == []
    model = load_model(talkative)[0]
    quantize(model)
    with pytest.raises(ValueError, match="XLA cannot compile a model in int8"):
        ModelPredictor.of_model(model, *loaded[1:], xla="on")
    predictor = ModelPredictor.of_model(model, *loaded[1:], beam_size=1, xla="auto")
    assert [predictor._compiled_rows(1) for _ in range(9)] == [0] * 9


@pytest.fixture
def one_length(monkeypatch):
    """Compiling takes seconds for each length."""
    monkeypatch.setattr("tf_transformer.decoding.compiled.search_shapes._DEFAULT_LENGTHS", (24,))


# Compiled searches are compared in tests/tf_transformer/decoding/compiled, and by
# tests/test_language_model.py through this predictor.
@pytest.mark.exhaustive
@pytest.mark.slow
def test_answers(loaded, corpus, one_length):
    """Of sentences one by one and of chunks, the longest too long for what is compiled."""
    lines = (corpus.directory / "test.en").read_text(encoding="utf-8").splitlines()
    texts = [*lines[:32], "", "the train to Vienna " * 20]
    ordinary = ModelPredictor.of_model(*loaded, beam_size=2)
    compiled = ModelPredictor.of_model(*loaded, beam_size=2, xla="on")

    def translate(predictor, texts):
        (batch,) = answer(predictor, "nbest", {"text": texts})
        return batch

    expected = translate(ordinary, texts)
    alone = [translate(compiled, [text]) for text in [*texts[:4], *texts[-2:]]]
    joined = {name: [found[name][0] for found in alone] for name in expected}
    chosen = [*range(4), *range(len(texts) - 2, len(texts))]
    for found, rows in ((translate(compiled, texts), range(len(texts))), (joined, chosen)):
        for name in ("translations", "truncated"):
            assert found[name] == [expected[name][row] for row in rows]
        for scores, row in zip(found["scores"], rows, strict=True):
            assert scores == pytest.approx(expected["scores"][row], abs=1e-4)


@pytest.mark.exhaustive
@pytest.mark.slow
def test_the_commands(talkative, corpus, tmp_path, capsys, one_length):
    """`translate` and `evaluate` print the same with and without XLA."""
    (tmp_path / "in").write_text("the train to Vienna\n")
    model = shutil.copytree(talkative, tmp_path / "model")  # `evaluate` adds its scores
    for command in (
        ["translate", "--input", str(tmp_path / "in"), "--n-best", "2"],
        ["evaluate", "--source", corpus.path("test.en"), "--reference", corpus.path("test.de")],
    ):
        printed = []
        for xla in ("on", "off"):
            words = [*command, "--model-dir", str(model), "--beam-size", "2", "--xla", xla]
            assert main(words) == 0
            printed.append(capsys.readouterr().out)
        assert printed[0] == printed[1] != ""
