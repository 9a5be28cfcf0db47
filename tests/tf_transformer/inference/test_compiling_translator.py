"""A translator that compiles: which batches, and after how many; and that its answers are equal."""

import shutil

import pytest
import tensorflow as tf

from tf_transformer.__main__ import main
from tf_transformer.inference.compiling_translator import CompilingTranslator
from tf_transformer.inference.translator import Translator
from tf_transformer.quantization.int8 import quantize
from tf_transformer.storage.model_dir import load_model


@pytest.fixture(scope="module")
def loaded(talkative):
    return load_model(talkative)


@pytest.fixture(scope="module")
def sentences(corpus):
    return (corpus.directory / "test.en").read_text(encoding="utf-8").splitlines()


class Recorder:
    """Stands for the translators with compiled shapes."""

    def __init__(self, translator):
        self.calls = []
        translator._make_translator = self.make

    def make(self, compiled_shapes):
        self.calls.append(("shapes", [tuple(shape) for shape in compiled_shapes]))
        return self

    def translate(self, text):
        self.calls.append(len(text))


@pytest.fixture
def record(loaded, monkeypatch):
    """Sizes of batches to what is run compiled; the ordinary search does nothing."""
    monkeypatch.setattr(Translator, "translate", lambda self, text: None)
    monkeypatch.setattr(Translator, "rows_before_compiling", 3)

    def run(sizes, **options):
        translator = CompilingTranslator(*loaded, **options)
        recorder = Recorder(translator)
        for size in sizes:
            translator.translate(tf.fill([size], "a"))
        return recorder.calls

    return run


def test_auto_compiles_for_sentences_one_by_one(record):
    singles = ("shapes", [(1, 16), (1, 32)])  # the model's limit is 40
    assert record([1] * 3) == []
    assert record([1] * 5) == [singles, 1, 1]
    assert record([1, 31, 1, 2, 1, 256, 1, 0, 1]) == [singles, 1, 1]


def test_auto_never_compiles_for_chunks(record):
    assert record([256, 32, 33] * 5, beam_size=4) == []
    assert record([32, 5, 512] * 5, beam_size=1) == []


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
        CompilingTranslator(model, *loaded[1:], xla="on")
    translator = CompilingTranslator(model, *loaded[1:], beam_size=1)
    recorder = Recorder(translator)
    for _ in range(9):
        translator.translate(tf.constant(["a"]))
    assert recorder.calls == []


@pytest.fixture
def one_length(monkeypatch):
    """Compiling takes seconds for each length."""
    monkeypatch.setattr("tf_transformer.decoding.compiled.search_shapes._DEFAULT_LENGTHS", (24,))


@pytest.mark.slow
def test_answers(loaded, sentences, one_length):
    """Of sentences one by one and of chunks, the longest too long for what is compiled."""
    texts = [*sentences[:32], "", "the train to Vienna " * 20]
    options = dict(beam_size=2, num_best=2)
    ordinary = Translator(*loaded, **options).n_best(texts)
    compiled = CompilingTranslator(*loaded, xla="on", **options)
    together = compiled.n_best(texts)
    alone = [compiled.n_best([text])[0] for text in [*texts[:4], *texts[-2:]]]
    for expected, found in zip(
        [*ordinary, *ordinary[:4], *ordinary[-2:]], [*together, *alone], strict=True
    ):
        assert [x.text for x in found] == [x.text for x in expected]
        assert [x.truncated for x in found] == [x.truncated for x in expected]
        assert [x.score for x in found] == pytest.approx([x.score for x in expected], abs=1e-4)


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
