"""Scores, intervals and p values are those of sacreBLEU."""

import random

import numpy as np
import pytest
import sacrebleu
from sacrebleu.significance import PairedTest

from training.report.system_scores import make_metrics, score_systems

WORDS = ["der", "Hund", "läuft", "über", "die", "Wiese", ",", "weil", "Kind", "ruft", "."]
RESAMPLES = 60


def _texts(seed, sentences=25):
    """References, and three systems that lose more and more words."""
    draw = random.Random(seed)
    reference = [" ".join(draw.choices(WORDS, k=draw.randint(3, 14))) for _ in range(sentences)]
    systems = {
        f"loses {share}": [
            " ".join(word for word in line.split() if draw.random() > share) for line in reference
        ]
        for share in (0.1, 0.2, 0.5)
    }
    return reference, systems


@pytest.mark.parametrize("num_references", [1, 2])
def test_the_resampling_is_that_of_sacrebleu(num_references, monkeypatch):
    monkeypatch.delenv("SACREBLEU_SEED", raising=False)
    reference, systems = _texts(0)
    references = [reference, _texts(1)[0]][:num_references]
    ours = score_systems(systems, references, make_metrics(), RESAMPLES)
    names = list(systems)
    for first in range(2):
        named = [(name, systems[name]) for name in names[first:]]
        metrics = {"BLEU": sacrebleu.BLEU(), "chrF": sacrebleu.CHRF()}
        signatures, found = PairedTest(named, metrics, references, "bs", RESAMPLES)()
        for metric, theirs in zip(ours, ("BLEU", "chrF2"), strict=True):
            assert metric.signature == str(signatures[theirs])
            p_values = {(one.first, one.second): one.p_value for one in metric.differences}
            for second, result in enumerate(found[theirs], first):
                score = metric.systems[second]
                assert score.value == pytest.approx(result.score, abs=1e-9)
                # SacreBLEU adds the counts in float32.
                assert score.mean == pytest.approx(result.mean, abs=2e-3)
                assert score.interval == pytest.approx(result.ci, abs=2e-3)
                if second > first:
                    assert p_values[first, second] == result.p_value


def test_the_seed_is_that_of_sacrebleu(monkeypatch):
    reference, systems = _texts(0)
    intervals = set()
    for seed in ("1", "2", "1"):
        monkeypatch.setenv("SACREBLEU_SEED", seed)
        bleu, _ = score_systems(systems, [reference], make_metrics(), RESAMPLES)
        assert f"seed:{seed}" in bleu.signature
        intervals.add(bleu.systems[0].interval)
    assert len(intervals) == 2


def test_equal_systems_do_not_differ():
    reference, systems = _texts(0)
    lines = systems["loses 0.2"]
    for metric in score_systems({"a": lines, "b": lines}, [reference], make_metrics(), 10):
        (difference,) = metric.differences
        assert (difference.value, difference.p_value) == (0, 1)


def test_groups_and_sentences():
    reference, systems = _texts(0)
    bleu, chrf = score_systems(systems, [reference], make_metrics(), 2)
    sentences = np.array([1, 4, 9])
    chosen = [reference[index] for index in sentences]
    for system, lines in enumerate(systems.values()):
        found = sacrebleu.corpus_bleu([lines[index] for index in sentences], [chosen])
        assert bleu.of_group(sentences)[system] == pytest.approx(found.score)
        expected = [
            sacrebleu.sentence_chrf(line, [other]).score
            for line, other in zip(lines, reference, strict=True)
        ]
        assert chrf.of_sentences()[system] == pytest.approx(expected)
