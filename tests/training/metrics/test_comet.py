"""The process that computes COMET, with a small package in place of unbabel-comet.

`tests/parity/test_comet.py` compares with the real one.
"""

import numpy as np
import pytest

from tests.training.evaluation.test_significance import compare_by
from tf_transformer.errors import InputError
from training.evaluation.metrics import MetricSettings, make_metrics

# Prints as the libraries do, counts its calls, and refuses a reference that it does not know.
PACKAGE = """
import json, os, sys

__version__ = "9.8"


class Model:
    def __init__(self, kind):
        self.hparams = {"input_segments": ["mt", "src"]} if kind == "kiwi" else {}
        self.kind = kind
        self.calls = 0

    def eval(self):
        print("loading", self.kind)

    half = set_embedding_cache = eval

    def requires_references(self):
        return self.kind == "da"

    def predict(self, samples, batch_size, gpus, progress_bar, accelerator):
        assert (batch_size, gpus, progress_bar, accelerator) == (16, 0, False, "cpu")
        self.calls += 1
        print("predicting")
        if samples[0]["mt"] == "die":
            print("Killed by the test", file=sys.stderr)
            sys.stderr.flush()
            os._exit(3)
        if samples[0]["mt"] == "raise":
            raise RuntimeError("out of\\nmemory")
        for sample in samples:
            assert set(sample) == {"src", "mt"} | ({"ref"} if self.kind == "da" else set())
        lengths = [len(" ".join(x.values())) / 100 + self.calls for x in samples]
        return type("Prediction", (), {"scores": lengths})


def load_from_checkpoint(path):
    with open(path) as file:
        return Model(file.read())


def download_model(name):
    raise KeyError(f"Model '{name}' not supported by COMET.")
"""


@pytest.fixture
def model(tmp_path, monkeypatch):
    """Writes a model, and returns the metric."""
    (tmp_path / "comet.py").write_text(PACKAGE)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))

    def make(kind):
        path = tmp_path / kind / "checkpoints" / "model.ckpt"
        path.parent.mkdir(parents=True)
        path.write_text(kind)
        return make_metrics(["comet"], MetricSettings(comet_model=str(tmp_path / kind)))["comet"]

    return make


HYPOTHESES, SOURCES = ["ab ", "c"], [" def", "g"]
REFERENCES = [["hi", "jkl"], ["mnopq", "r"]]


def test_references_are_averaged(model, tmp_path):
    metric = model("da")
    scores = metric.sentence_scores(HYPOTHESES, REFERENCES, SOURCES)
    # With two spaces between the three parts, which are stripped; each text is scored once.
    assert scores == pytest.approx([(1.09 + 2.12) / 2, (1.07 + 2.05) / 2])
    found = metric.score(HYPOTHESES, REFERENCES, SOURCES)
    assert found.value == pytest.approx(np.mean(scores)) and found.interval is None
    nrefs, name, checkpoint, version = found.signature.split("|")
    assert (nrefs, name, version) == ("nrefs:2", f"model:{tmp_path / 'da'}", "version:9.8")
    assert len(checkpoint) == len("checkpoint:") + 16
    assert metric.format(found.value) == f"{found.value:.4f}"


def test_a_model_without_references(model):
    metric = model("kiwi")
    scores = metric.sentence_scores(HYPOTHESES, REFERENCES, SOURCES)
    assert scores == metric.sentence_scores(HYPOTHESES, [], SOURCES) == [1.06, 1.03]


def test_paired_tests_resample_the_scores_of_sentences(model):
    """By sacreBLEU's seed; the result of resampling by hand."""
    metric = model("kiwi")
    rng = np.random.default_rng(1)
    ours, theirs, sources = (["x" * n for n in rng.integers(1, 60, 30)] for _ in range(3))
    (one,) = compare_by(
        [metric], ours, {"b": theirs}, sources, sources=sources, resamples=50, trials=60
    )
    a, b = (np.array(metric.sentence_scores(x, [sources], sources)) for x in (ours, theirs))
    assert one.metric == "COMET" and one.difference == pytest.approx(a.mean() - b.mean())
    assert "|bs:50|seed:12345|model:" in one.bootstrap_signature
    difference = abs(a.mean() - b.mean())
    places = np.random.default_rng(12345).choice(30, size=(50, 30), replace=True)
    differences = np.abs((b[places] - a[places]).mean(1))
    larger = np.sum(differences - differences.mean() > difference)
    assert one.bootstrap_p == pytest.approx((larger + 1) / 51)
    picks = np.random.default_rng(12345).integers(2, size=(60, 30), dtype=bool)
    differences = np.abs(np.where(picks, a - b, b - a).mean(1))
    larger = np.sum(differences > difference)
    assert one.randomization_p == pytest.approx((larger + 1) / 61)


@pytest.mark.slow
def test_failures_are_one_line(model, tmp_path, monkeypatch):
    metric = model("da")
    with pytest.raises(InputError, match=r"^COMET failed: RuntimeError: out of memory$"):
        metric.sentence_scores(["raise"], [["x"]], ["x"])
    metric = model("kiwi")
    with pytest.raises(InputError, match="ended with status 3: Killed by the test"):
        metric.sentence_scores(["die"], [["x"]], ["x"])
    with pytest.raises(InputError, match=r"--comet-model no/model: KeyError: .*not supported"):
        make_metrics(["comet"], MetricSettings(comet_model="no/model"))
    settings = MetricSettings(comet_python=tmp_path / "none")
    with pytest.raises(InputError, match="none cannot be started: No such file"):
        make_metrics(["comet"], settings)
    (tmp_path / "comet.py").write_text("raise ModuleNotFoundError(\"No module named 'comet'\")")
    with pytest.raises(InputError, match=r"unbabel-comet, which .* does not have\. Install it in"):
        make_metrics(["comet"])
