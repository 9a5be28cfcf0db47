"""Noise of pairs: how often, of which pairs, always the same for the same seed."""

import math
import re

import pytest
import tensorflow as tf

from training.config import NoiseConfig
from training.noise.draws import choices, integers, pair_keys, uniform
from training.noise.noise import add_noise, perturb_lines

ALL = NoiseConfig(upper=0.2, title=0.2, no_end=0.3, typos=0.05, copies=0.3)
NUM_PAIRS = 2000
SOURCES = [f"the {n} red houses were sold." for n in range(NUM_PAIRS)]
TARGETS = [f"die {n} roten Häuser wurden verkauft." for n in range(NUM_PAIRS)]


def noisy(rates, sources=SOURCES, targets=TARGETS, seed=1):
    return list(perturb_lines(sources, targets, rates, seed))


def assert_rate(count, number, rate):
    """Within five standard deviations."""
    assert abs(count - rate * number) <= 5 * math.sqrt(rate * (1 - rate) * number)


def test_draws_are_uniform_and_independent():
    keys = pair_keys(1, tf.range(20_000))
    draws = uniform(keys, "a").numpy()
    assert draws.min() >= 0 and draws.max() < 1
    assert draws.mean() == pytest.approx(0.5, abs=0.01)
    assert abs(draws.std() - math.sqrt(1 / 12)) < 0.01
    for other in (uniform(keys, "b"), uniform(pair_keys(2, tf.range(20_000)), "a")):
        correlation = ((draws - 0.5) * (other.numpy() - 0.5)).mean() * 12
        assert abs(correlation) < 0.04
    faces = integers(keys, "die", 6).numpy()
    for face in range(6):
        assert_rate((faces == face).sum(), 20_000, 1 / 6)
    alternatives = [tf.fill([20_000], letter) for letter in "xyz"]
    chosen = choices(keys, "letter", alternatives).numpy().tolist()
    for letter in (b"x", b"y", b"z"):
        assert_rate(chosen.count(letter), 20_000, 1 / 3)


def test_keys_of_different_pairs_differ():
    """Epoch 1, line 11 is not epoch 11, line 1."""
    grid = tf.meshgrid(tf.range(120), tf.range(120))
    keys = pair_keys(1, *(tf.reshape(side, [-1]) for side in grid))
    assert len(set(keys.numpy().tolist())) == 120 * 120


@pytest.mark.slow
def test_rates_of_zero_change_nothing_and_add_nothing(monkeypatch):
    odd = ["", " ", "x\u00a0 y ", "\u3000", "\ufeffa", "a\u0301", "I\u0307", "A  b."]
    result = noisy(NoiseConfig(), odd, odd[::-1])
    assert result == [(a, b, "") for a, b in zip(odd, odd[::-1], strict=True)]
    text, keys = tf.TensorSpec([None], tf.string), tf.TensorSpec([None], tf.string)

    def num_operations(**rates):
        function = tf.function(lambda *given: add_noise(*given, NoiseConfig(**rates)))
        return len(function.get_concrete_function(text, text, keys).graph.get_operations())

    without = num_operations()
    for name in vars(NoiseConfig()):
        assert without < num_operations(**{name: 0.1}) / 2


@pytest.mark.slow
@pytest.mark.parametrize("rate", [0.05, 0.5, 1.0])
def test_rates_are_met(rate):
    for name in ("upper", "title", "no_end", "copies"):
        result = noisy(NoiseConfig(**{name: rate}))
        changed = [
            [source, target] != clean
            for (source, target, _), *clean in zip(result, SOURCES, TARGETS, strict=True)
        ]
        assert_rate(sum(changed), NUM_PAIRS, rate)
        # Either both sides change or neither does.
        for (source, target, _), *clean in zip(result, SOURCES, TARGETS, strict=True):
            assert (source != clean[0]) == (target != clean[1])


@pytest.mark.slow
def test_upper_and_title_exclude_each_other():
    result = noisy(NoiseConfig(upper=0.4, title=0.6))
    uppers = [source.isupper() for source, _, _ in result]
    assert_rate(sum(uppers), NUM_PAIRS, 0.4)
    for is_upper, (source, target, _), clean in zip(uppers, result, SOURCES, strict=True):
        assert target.isupper() == is_upper
        assert source == clean.upper() if is_upper else source == clean.title()


@pytest.mark.slow
def test_pairs_stay_parallel():
    """Each pair keeps its own number, on both sides; only the source has typos."""
    result = noisy(ALL)
    assert len(result) == NUM_PAIRS
    kept = 0
    for number, (source, target, token) in enumerate(result):
        sides = [side.replace(token, "", 1) if token else side for side in (source, target)]
        assert [re.findall(r"\d+", side) for side in sides] == [[str(number)]] * 2
        assert sides[1].strip(" .").lower() == TARGETS[number].strip(".").lower()
        assert sides[0].strip().isupper() == sides[1].strip().isupper()
        assert (token in source) and (token in target)
        kept += source == SOURCES[number] and target == TARGETS[number]
    assert 0 < kept < NUM_PAIRS / 4


@pytest.mark.slow
def test_noise_is_a_function_of_the_seed_and_the_pair():
    whole = noisy(ALL)
    assert whole == noisy(ALL)
    other = noisy(ALL, seed=2)
    assert sum(map(tuple.__eq__, whole, other)) < NUM_PAIRS / 4
    # A pair's noise does not depend on the other pairs of its batch.
    rows = [7, 1500, 3, 1999]
    keys = pair_keys(1, tf.constant(rows, tf.int64))
    texts = ([side[row] for row in rows] for side in (SOURCES, TARGETS))
    alone = add_noise(*map(tf.constant, texts), keys, ALL)
    found = zip(*(side.numpy() for side in alone), strict=True)
    assert [tuple(map(bytes.decode, pair)) for pair in found] == [whole[row] for row in rows]
    epochs = [
        add_noise(*map(tf.constant, (SOURCES, TARGETS)), pair_keys(1, epoch, lines), ALL).source
        for epoch in (tf.zeros([NUM_PAIRS], tf.int64), tf.ones([NUM_PAIRS], tf.int64))
        for lines in (tf.range(NUM_PAIRS, dtype=tf.int64),)
    ]
    assert tf.reduce_mean(tf.cast(epochs[0] == epochs[1], tf.float32)) < 0.3


@pytest.mark.slow
def test_other_noise_does_not_move_a_noise():
    """Adding a rate to a run leaves the pairs of the others as they were."""
    alone = [source.isupper() for source, _, _ in noisy(NoiseConfig(upper=0.2))]
    both = [source.isupper() for source, _, _ in noisy(NoiseConfig(upper=0.2, typos=0.02))]
    assert alone == both


@pytest.mark.parametrize("blank", ["", " ", "\u3000", "\u00a0 \t"])
def test_blank_sides_stay_blank(blank):
    """Such pairs are left out in training, and must not become a lone emoji."""
    rates = NoiseConfig(upper=1.0, no_end=1.0, typos=1.0, copies=1.0)
    pairs = [(blank, "Ein Satz."), ("A sentence.", blank), (blank, blank)]
    sources, targets = map(list, zip(*pairs, strict=True))
    assert noisy(rates, sources, targets) == [(*pair, "") for pair in pairs]
    assert noisy(rates, [], []) == []


@pytest.mark.slow
@pytest.mark.parametrize("tags", ["<2de> ", ">>de<< >>en<< ", "<bt> <2zh-Hant> ", "<2de>"])
def test_language_tags_are_untouched(tags):
    rates = NoiseConfig(title=1.0, no_end=1.0, typos=0.5, copies=1.0)
    count = 300
    for case in (rates, NoiseConfig(**(vars(rates) | {"title": 0.0, "upper": 1.0}))):
        result = noisy(case, [f"{tags}the house was sold."] * count, ["Das Haus."] * count)
        assert all(source.startswith(tags) for source, _, _ in result)
        assert len({source for source, _, _ in result}) > count / 2
        assert all(re.sub(re.escape(token), "", t).isspace() is False for _, t, token in result)


def test_tags_without_a_space_are_untouched():
    sources = ["<2zh>\u4f60\u597d\u4e16\u754c\uff0c\u65e9\u4e0a\u597d"] * 50
    result = noisy(NoiseConfig(typos=1.0, upper=1.0), sources, sources)
    assert [source for source, _, _ in result] == sources
