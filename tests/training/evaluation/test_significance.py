"""Paired tests against the same resampling done by hand, sentence lists and `corpus_bleu`."""

import numpy as np
import pytest
import sacrebleu

from training.evaluation.metrics import make_metrics
from training.evaluation.significance import compare_systems, comparison_table

SAMPLES = 60


def compare_by(metrics, ours, systems, *references, **arguments):
    return compare_systems(ours, systems, references, metrics, **arguments)


def compare(ours, systems, *references, names=("bleu", "chrf"), **arguments):
    return compare_by(list(make_metrics(names).values()), ours, systems, *references, **arguments)


@pytest.fixture(scope="module")
def texts():
    """A reference of 30 sentences, and two systems that get words wrong, the second more often."""
    rng = np.random.default_rng(5)
    words = np.array([f"w{number}" for number in range(40)])
    reference = [rng.choice(words, 12) for _ in range(30)]

    def spoil(rate):
        return [
            " ".join(np.where(rng.random(12) < rate, rng.choice(words, 12), line))
            for line in reference
        ]

    return [" ".join(line) for line in reference], spoil(0.25), spoil(0.3)


def score(metric, hypotheses, references):
    metric = sacrebleu.BLEU() if metric == "BLEU" else sacrebleu.CHRF()
    return metric.corpus_score(list(hypotheses), [list(references)]).score


@pytest.mark.slow
@pytest.mark.parametrize("metric", ["BLEU", "chrF2"])
def test_p_values_against_resampling_by_hand(texts, metric):
    reference, ours, theirs = (np.array(text) for text in texts)
    found = compare(
        list(ours), {"other": list(theirs)}, list(reference), resamples=SAMPLES, trials=SAMPLES
    )
    (one,) = (comparison for comparison in found if comparison.metric == metric)
    difference = abs(score(metric, ours, reference) - score(metric, theirs, reference))
    assert abs(one.difference) == pytest.approx(difference)

    places = np.random.default_rng(12345).choice(30, size=(SAMPLES, 30), replace=True)
    differences = np.array([
        abs(score(metric, ours[p], reference[p]) - score(metric, theirs[p], reference[p]))
        for p in places
    ])  # fmt: skip
    larger = np.sum(differences - differences.mean() > difference)
    assert one.bootstrap_p == pytest.approx((larger + 1) / (SAMPLES + 1))

    picks = np.random.default_rng(12345).integers(2, size=(SAMPLES, 30), dtype=bool)
    differences = np.array([
        abs(
            score(metric, np.where(pick, ours, theirs), reference)
            - score(metric, np.where(pick, theirs, ours), reference)
        )
        for pick in picks
    ])  # fmt: skip
    larger = np.sum(differences > difference)
    assert one.randomization_p == pytest.approx((larger + 1) / (SAMPLES + 1))


@pytest.mark.parametrize(("number", "least"), [(1, 1.0), (2, 0.5), (3, 0.25)])
def test_systems_that_differ_in_few_sentences(texts, number, least):
    """Every exchange of one sentence gives the same difference, and none a larger one."""
    reference, ours, theirs = texts
    close = [*theirs[:number], *ours[number:]]
    for one in compare(ours, {"close": close}, reference, resamples=20, trials=100):
        assert one.difference != 0.0 and one.randomization_p >= least


def test_differences_that_the_metric_does_not_see(texts):
    """TER ignores case by default, so one sentence differs for it, and all 30 for chrF."""
    reference, ours, theirs = texts
    shouted = [theirs[0].upper(), *(line.upper() for line in ours[1:])]
    names = ("ter", "chrf")
    ter, chrf = compare(
        ours, {"shouted": shouted}, reference, names=names, resamples=20, trials=100
    )
    assert ter.difference != 0.0 and ter.randomization_p == 1.0
    assert chrf.difference != 0.0 and chrf.randomization_p < 0.05


def test_equal_and_clearly_different_systems(texts):
    reference, ours, _ = texts
    systems = {"same": ours, "perfect": reference}
    same, _, perfect, _ = compare(ours, systems, reference, resamples=200, trials=200)
    assert (same.bootstrap_p, same.randomization_p, same.difference) == (1.0, 1.0, 0.0)
    assert perfect.bootstrap_p < 0.01 and perfect.randomization_p < 0.01
    assert perfect.difference < 0
    assert "bs:200" in same.bootstrap_signature and "ar:200" in same.randomization_signature
    assert "ar" not in same.bootstrap_signature.split("|")[1]
    table = comparison_table([same, perfect])
    assert len(table.splitlines()) == 5 and perfect.bootstrap_signature in table


@pytest.mark.slow
def test_every_metric_of_sacrebleu_and_several_references(texts):
    """The scores are those of the metrics, and a lower rate of edits is a better one."""
    reference, ours, theirs = texts
    names = ("bleu", "chrf", "chrf++", "ter")
    found = compare(ours, {"b": theirs}, reference, theirs, names=names, resamples=9, trials=9)
    assert [one.metric for one in found] == ["BLEU", "chrF2", "chrF2++", "TER"]
    for one, metric in zip(found, make_metrics(names).values(), strict=True):
        scores = [metric.score(text, [reference, theirs]) for text in (ours, theirs)]
        assert [one.model_score, one.system_score] == [score.value for score in scores]
        assert one.bootstrap_signature.startswith("nrefs:2|bs:9|seed:12345|")
        assert (one.difference > 0) != metric.higher_is_better  # the other is a reference
    assert comparison_table(found).splitlines()[4].split()[:4] == [
        *("b", "TER", f"{found[3].model_score:.2f}", "0.00")
    ]


def test_wrong_number_of_translations(texts):
    with pytest.raises(ValueError, match="other must have one line for each of the 30 sentences"):
        compare(texts[1], {"other": texts[1][:-1]}, texts[0])


def test_a_seed_that_is_none(texts, monkeypatch):
    monkeypatch.setenv("SACREBLEU_SEED", "abc")
    with pytest.raises(ValueError, match=r"SACREBLEU_SEED: expected a number, or none. .* 'abc'"):
        compare(texts[1], {"other": texts[1]}, texts[0])
