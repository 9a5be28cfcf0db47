"""Choosing among candidates by the commands: translate and evaluate."""

import json
import shutil

import pytest
import sacrebleu

from export.lines import line_translations
from tests.other_models import reverse_model
from tf_transformer.__main__ import main
from tf_transformer.predictors.model_predictor import ModelPredictor
from tf_transformer.reranking.reranker import Reranker
from tf_transformer.reranking.settings import MinimumBayesRisk
from tf_transformer.storage.model_dir import load_for_decoding
from training.evaluation.weight_tuning import GRID

SAMPLES = ["--mbr", "--mbr-samples", "6", "--seed", "5"]


@pytest.fixture(scope="module")
def reverse(corpus, tmp_path_factory):
    return reverse_model(corpus, tmp_path_factory)


@pytest.fixture
def source(corpus, tmp_path):
    lines = corpus.directory.joinpath("test.en").read_text(encoding="utf-8").splitlines()[:20]
    (tmp_path / "source").write_text("\n".join([*lines[:3], "", *lines[3:]]) + "\n")
    return tmp_path / "source"


def translate(model_dir, source, output, *options):
    command = ["translate", "--model-dir", str(model_dir), "--input", str(source)]
    assert main([*command, "--output", str(output), *options]) == 0
    return output.read_text(encoding="utf-8").splitlines()


@pytest.mark.representatives("beam")
@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "choice"),
    [
        (["--mbr", "--beam-size", "6"], MinimumBayesRisk()),
        (SAMPLES, MinimumBayesRisk(num_samples=6, seed=5)),
        (
            [*SAMPLES, "--mbr-top-p", "0.9", "--mbr-temperature", "0.5"],
            MinimumBayesRisk(num_samples=6, seed=5, top_p=0.9, temperature=0.5, epsilon=None),
        ),
    ],
    ids=["beam", "samples", "top p"],
)
def test_translate_mbr(talkative, source, tmp_path, options, choice):
    """The command does what the class does, with n best in the order of their scores."""
    lines = source.read_text().splitlines()
    predictor = ModelPredictor.of_model(*load_for_decoding(talkative), beam_size=6)
    reranker = Reranker(predictor, choice, {"beam_size": 6}, num_best=2)
    expected = reranker.translate_batch(lines)
    assert translate(talkative, source, tmp_path / "out", *options) == [x[0].text for x in expected]
    rows = translate(talkative, source, tmp_path / "n-best", *options, "--n-best", "2")
    expected[3] *= 2
    assert rows == [
        f"{number}\t{score:.4f}\t{text}"
        for number, best in enumerate(expected, 1)
        for text, score, _ in best
    ]


@pytest.mark.slow
def test_an_interrupted_run_is_resumed_with_the_same_samples(
    talkative, source, tmp_path, monkeypatch, capsys
):
    whole = translate(talkative, source, tmp_path / "whole", *SAMPLES)
    output = tmp_path / "out"
    original = line_translations._translate_batch
    monkeypatch.setattr("export.lines.line_batches.BATCH_SIZE", 7)
    monkeypatch.setattr("export.lines.line_batches.Lines.batches.__defaults__", (7,))

    def fail_in_the_second(batch, number, *arguments):
        if number:
            raise KeyboardInterrupt
        return original(batch, number, *arguments)

    command = ["translate", "--model-dir", str(talkative), "--input", str(source)]
    with monkeypatch.context() as patch:
        patch.setattr(line_translations, "_translate_batch", fail_in_the_second)
        assert main([*command, "--output", str(output), *SAMPLES]) == 130
    for changed in (["--mbr"], [*SAMPLES[:-1], "6"], [*SAMPLES, "--mbr-epsilon", "0.1"]):
        assert main([*command, "--output", str(output), *changed]) == 2
        assert "was begun " in capsys.readouterr().err
    assert translate(talkative, source, output, *SAMPLES) == whole
    assert "resuming after 7 lines" in capsys.readouterr().err


@pytest.mark.slow
def test_evaluate_mbr(corpus, talkative, source, tmp_path, capsys):
    """The translations of `translate`, and scores that say how they were chosen."""
    model = tmp_path / "model"
    shutil.copytree(talkative, model, ignore=shutil.ignore_patterns("scores.jsonl"))
    source = corpus.path("validation.en")
    command = ["evaluate", "--model-dir", str(model), "--source", source]
    command += ["--reference", corpus.path("validation.de"), "--metrics", "bleu"]
    expected = translate(model, source, tmp_path / "b", *SAMPLES)
    assert main([*command, *SAMPLES, "--output", str(tmp_path / "a")]) == 0
    assert main(command) == 0
    chosen, plain = (json.loads(x) for x in (model / "scores.jsonl").read_text().splitlines())
    assert chosen["choice"] == {
        **{"mbr": "chrf", "num_samples": 6, "temperature": 1.0, "top_p": None},
        **{"epsilon": 0.02, "seed": 5},
    }
    assert "choice" not in plain and plain["bleu"] != chosen["bleu"]
    assert (tmp_path / "a").read_text(encoding="utf-8").splitlines() == expected
    capsys.readouterr()
    assert main(["runs", str(tmp_path)]) == 0
    assert capsys.readouterr().out.count(" MBR ") == 1


@pytest.mark.slow
def test_rerank_by_a_reverse_model(corpus, talkative, reverse, tmp_path, capsys):
    """The best weight of the grid gives the BLEU that was promised."""
    texts = ["--source", corpus.path("validation.en"), "--reference", corpus.path("validation.de")]
    command = ["evaluate", "--model-dir", str(talkative), *texts, "--beam-size", "6"]
    command += ["--rerank-reverse", str(reverse)]
    assert main([*command, "--tune-weights"]) == 0
    head, columns, *rows, last = capsys.readouterr().out.splitlines()
    assert (head, columns.split()[-1]) == ("BLEU by weight", "0")
    values = {float(row.split()[0]): float(row.split()[1]) for row in rows}
    assert tuple(values) == GRID
    best = max(values, key=lambda weight: (values[weight], -weight))
    options = ["--rerank-reverse-weight", f"{best:g}"]
    assert last.startswith(f"best: {' '.join(options)} (BLEU {values[best]:.2f}; of the search, ")
    scores = tmp_path / "scores.json"
    weight = ["--rerank-reverse-weight", "2.0", "--metrics", "bleu"]
    assert main([*command, *weight, "--json", str(scores)]) == 0
    found = json.loads(scores.read_text())
    assert found["bleu"] == pytest.approx(values[2.0], abs=0.006)
    assert found["choice"]["reverse_weight"] == 2.0
    assert len(set(values.values())) > 1
    capsys.readouterr()
    out = translate(
        talkative, texts[1], tmp_path / "out", "--beam-size", "6", *command[-2:], *options
    )
    references = (corpus.directory / "validation.de").read_text(encoding="utf-8").splitlines()
    bleu = sacrebleu.corpus_bleu(out, [references]).score
    assert bleu == pytest.approx(values[best], abs=0.006)


def test_the_models_of_the_choice_are_not_overwritten(trained, tmp_path, capsys, monkeypatch):
    (tmp_path / "source").write_text("a\n")
    monkeypatch.chdir(tmp_path)
    shutil.copytree(trained, "reverse")
    command = ["translate", "--model-dir", str(trained), "--input", "source", "--rerank-reverse"]
    command += ["reverse", "--rerank-reverse-weight", "1", "--output", "reverse/model.weights.h5"]
    assert main(command) == 2
    assert "is a file of the model" in capsys.readouterr().err
