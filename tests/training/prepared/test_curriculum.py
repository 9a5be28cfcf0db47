"""Curricula: each corpus' share of the batches, a function of the step alone."""

import numpy as np
import pytest
import tensorflow as tf

from tests.training.prepared.test_prepared_text import (
    DATA,
    collect,
    equal,
    text_of,
)
from tf_transformer.__main__ import main
from training.config import Phase
from training.prepared.curriculum import Curriculum
from training.prepared.prepared_text import PreparedText
from training.settings import make_config

PHASES = [
    Phase(from_step=0, weights=[1.0, 3.0]),
    Phase(from_step=20, weights=[2.0, 1.0]),
    Phase(from_step=50, weights=[0.0, 1.0]),
]


def chosen(phases, num_steps, first_step=0):
    """The corpus of each step: streams of their own numbers."""
    streams = [lambda count, index=index: tf.data.Dataset.from_tensors(index).repeat()
               for index in range(len(phases[0].weights))]  # fmt: skip
    batches = Curriculum(phases).batches(streams, first_step)
    return [int(index) for index in batches.take(num_steps).as_numpy_iterator()]


def check_shares(phases, num_steps):
    """After each step of a phase: less than one batch too many, less than n - 1 too few."""
    found, number = np.array(chosen(phases, num_steps)), len(phases[0].weights)
    ends = [*(phase.from_step for phase in phases[1:]), num_steps]
    for phase, end in zip(phases, ends, strict=True):
        weights = np.array(phase.weights) / max(phase.weights)
        for step in range(phase.from_step, end):
            counts = np.bincount(found[phase.from_step : step + 1], minlength=number)
            excess = counts - weights / weights.sum() * counts.sum()
            assert excess.max() < 1 and excess.min() > -max(number - 1, 1)
            assert (counts[weights == 0] == 0).all()


@pytest.mark.slow
def test_shares():
    check_shares(PHASES, 100)
    assert np.bincount(chosen(PHASES, 20)).tolist() == [5, 15]


@pytest.mark.slow
def test_shares_of_many_corpora():
    random = np.random.default_rng(1)
    for number in (3, 4, 6):
        begins = [0, *np.sort(random.choice(np.arange(1, 60), 3, replace=False)).tolist()]
        weights = random.integers(0, 18, (4, number)) + np.eye(4, number)
        check_shares(
            [
                Phase(from_step=begin, weights=row)
                for begin, row in zip(begins, weights.tolist(), strict=True)
            ],
            120,
        )


def test_huge_weights():
    check_shares([Phase(from_step=0, weights=[1e308, 1e308, 1e-308])], 20)


@pytest.mark.slow
def test_many_corpora_with_uneven_shares():
    phases = [Phase(from_step=0, weights=[0.2, 1e-3, 5.0, 0.0, 0.7])]
    found = np.bincount(chosen(phases, 3000), minlength=5)
    expected = 3000 * np.array(phases[0].weights) / sum(phases[0].weights)
    assert np.abs(found - expected).max() <= 1
    assert found[3] == 0


@pytest.mark.parametrize("first_step", [1, 19, 20, 21, 50, 77])
def test_any_first_step_continues(first_step):
    assert chosen(PHASES, 30, first_step) == chosen(PHASES, first_step + 30)[first_step:]


@pytest.mark.slow
def test_each_batch_is_the_next_of_one_corpus_from_any_step_on(directory):
    text = text_of(directory, 1, 1, curriculum=PHASES)
    found = collect(text.training_batches(seed=3), 60)
    for first_step in (7, 41):
        resumed = collect(text.training_batches(3, first_step), 60 - first_step)
        assert equal(resumed, found[first_step:])
    alone = [
        iter(collect(PreparedText([folder], DATA).training_batches(seed=3), 60))
        for folder in text.folders
    ]
    expected = [next(alone[index]) for index in chosen(PHASES, 60)]
    assert equal(found, expected)


@pytest.mark.parametrize(
    ("curriculum", "message"),
    [
        ([{"from_step": 5, "weights": [1]}], "the first from 0. Received: \\[5\\]"),
        (
            [{"from_step": 0, "weights": [1]}, {"from_step": 0, "weights": [2]}],
            "in the order of their 'from_step'",
        ),
        ([{"from_step": 0, "weights": [0, 0]}], "a weight above 0 in each phase"),
        ([{"from_step": 0, "weights": [-1]}], "weights"),
        ([{"from_step": 0}], "weights"),
        ([{"from_step": 0, "weights": [1], "until": 5}], "until"),
    ],
)
def test_invalid_settings(curriculum, message):
    with pytest.raises(ValueError, match=message):
        make_config({"data": {"curriculum": curriculum}})


def test_invalid_folders(directory):
    with pytest.raises(ValueError, match="a weight for each of 1 prepared folders"):
        text_of(directory, 1, curriculum=PHASES)
    with pytest.raises(ValueError, match="second=2 has a weight, and 'data"):
        text_of(directory, 1, 2, curriculum=PHASES)


def test_texts_have_no_shares(corpus, tmp_path, capsys):
    command = ["train", *corpus.options, "--model-dir", str(tmp_path / "model"), "--set"]
    assert main([*command, "data.curriculum=[{from_step: 0, weights: [1]}]"]) == 2
    assert "give --prepared" in capsys.readouterr().err
