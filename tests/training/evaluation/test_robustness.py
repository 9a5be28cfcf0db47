"""Evaluation with noise: what is translated, what it is compared with, and what is printed."""

import json
import re
import shutil

import pytest

from tf_transformer.__main__ import main
from training.evaluation.perturbations import REFERENCES, Perturbation, parse_perturbations
from training.evaluation.robustness import robustness_table, score_perturbed
from training.evaluation.scores import bleu_and_chrf

SENTENCES = [f"Das {n}. Haus am großen See wird verkauft." for n in range(60)]
NAMES = list(REFERENCES)


def scored(translate, names=NAMES, sentences=SENTENCES):
    perturbations = parse_perturbations(names)
    clean = bleu_and_chrf(translate(sentences), sentences)
    return score_perturbed(translate, sentences, [sentences], perturbations, clean, "13a")


@pytest.mark.slow
def test_a_model_that_repeats_its_source():
    """It mirrors all noise. All but that of typos is in the reference, too."""
    seen = []
    results = scored(lambda lines: seen.append(lines) or lines)
    assert [result.perturbation.name for result in results] == NAMES
    for result in results:
        expected = result.perturbation.name != "typos"
        assert (result.scores.bleu == pytest.approx(100)) == expected
        assert (result.bleu_difference == pytest.approx(0)) == expected
        assert result.chrf_difference < -1 or expected
        assert result.changed == 60 or (not expected and 15 < result.changed < 45)
    assert results[-1].copied == dict.fromkeys(["address", "all", "emoji", "number", "tag"], 1.0)
    assert [result.copied for result in results[:-1]] == [{}] * 4
    clean, upper, title, no_end, _, copies = seen
    assert clean == SENTENCES
    assert upper == [line.upper() for line in SENTENCES]
    assert title == [f"Das {n}. Haus Am Großen See Wird Verkauft." for n in range(60)]
    assert no_end == [line[:-1] for line in SENTENCES]
    assert all(clean in line for clean, line in zip(SENTENCES, copies, strict=True))
    assert [len(lines) for lines in seen] == [60] * 6
    again = []
    scored(lambda lines: again.append(lines) or lines)
    assert again == seen


def test_a_model_that_ignores_noise():
    """It knows the translation by the number, which it finds."""

    def translate(lines):
        return [SENTENCES[int(re.search(r"\b(\d+)\. ", line.lower())[1])] for line in lines]

    upper, title, no_end, typos, copies = scored(translate)
    assert typos.bleu_difference == pytest.approx(0) and typos.changed > 15
    assert upper.bleu_difference < -50 and title.bleu_difference < -20
    assert -20 < no_end.bleu_difference < -1
    assert copies.bleu_difference < -5
    assert copies.copied["all"] < 0.05


def test_the_share_of_copies():
    """A model that loses what has a bracket."""
    (result,) = scored(lambda lines: [re.sub(r"[<{].*?[>}]", "", x) for x in lines], ["copies"])
    assert result.copied["tag"] == 0
    assert result.copied["emoji"] == result.copied["address"] == result.copied["number"] == 1
    assert 0.5 < result.copied["all"] < 1
    number = result.as_dict()["copied"]["all"] * 60
    assert number == pytest.approx(round(number))


def test_text_without_case():
    sentences = ["中文没有大小写。"] * 20
    (result,) = scored(lambda lines: lines, ["upper"], sentences)
    assert result.changed == 0 and result.bleu_difference == 0


def test_table():
    lines = robustness_table(scored(lambda lines: lines, ["upper", "typos=0.1", "copies"]))
    clean, upper, typos, copies, copied = lines.splitlines()[1:]
    assert clean.split() == ["none", "100.00", "100.00", "unchanged"]
    assert upper.split() == ["upper", "60", *["100.00", "+0.00"] * 2, "in", "upper", "case"]
    assert re.match(r"typos=0.1 +\d+ +\d+\.\d\d +-\d+\.\d\d +\d+\.\d\d +-\d+\.\d\d +unch", typos)
    assert "with the same tokens" in copies
    assert copied.startswith("copied unchanged, copies: all 100.0 %, emoji 100.0 %, tag")


def test_names_and_rates():
    assert parse_perturbations(["upper,typos", "typos=0.1", "upper"]) == [
        Perturbation("upper", 1.0),
        Perturbation("typos", 0.02),
        Perturbation("typos", 0.1),
    ]
    assert parse_perturbations(["no_end=0.5"])[0].rates.no_end == 0.5
    assert parse_perturbations([]) == []


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("uper", r"--perturb uper: expected one of upper, title, .*'upper'"),
        ("", "--perturb : expected one of"),
        ("typos,,upper", "--perturb : expected one of"),
        ("typos=", "--perturb typos=: expected a rate above 0 and at most 1, as in typos=0.02"),
        ("typos=0", "expected a rate above 0"),
        ("typos=nan", "expected a rate above 0"),
        ("upper=1.01", "expected a rate above 0"),
        ("is_on", "expected one of"),
    ],
)
def test_wrong_names_and_rates(name, message):
    with pytest.raises(ValueError, match=message):
        parse_perturbations([name])


@pytest.mark.slow
def test_the_command(talkative, corpus, tmp_path, capsys):
    """The clean scores are those without the option; the others are stored beside them."""
    model_dir = shutil.copytree(talkative, tmp_path / "model")
    command = ["evaluate", "--model-dir", str(model_dir), "--beam-size", "1"]
    command += ["--source", corpus.path("validation.en")]
    command += ["--reference", corpus.path("validation.de"), "--json"]
    assert main([*command, str(tmp_path / "clean")]) == 0
    capsys.readouterr()
    perturb = ["--perturb", "upper,title", "no_end", "typos=0.2", "copies"]
    assert main([*command, str(tmp_path / "noisy"), *perturb]) == 0
    table = capsys.readouterr().out.partition("noise ")[2]
    clean, noisy = (json.loads((tmp_path / name).read_text()) for name in ("clean", "noisy"))
    results = noisy.pop("perturbations")
    assert "perturbations" not in clean
    clean.pop("date"), noisy.pop("date")
    assert clean == noisy
    assert [result["name"] for result in results] == NAMES
    for result in results:
        assert result["bleu_difference"] == result["bleu"] - noisy["bleu"]
        assert result["chrf_difference"] == result["chrf"] - noisy["chrf"]
        assert f"{result['chrf']:.2f}" in table
        assert result["reference"] == REFERENCES[result["name"]]
        assert 0 < result["changed"] <= 40
    by_name = {result["name"]: result for result in results}
    # It has never seen any of this.
    assert by_name["upper"]["chrf"] < noisy["chrf"] - 10
    assert by_name["typos"]["chrf"] < noisy["chrf"] and by_name["typos"]["rate"] == 0.2
    assert by_name["copies"]["copied"]["all"] < 0.5
    stored = (model_dir / "scores.jsonl").read_text().splitlines()
    assert json.loads(stored[-1])["perturbations"] == results
