"""Batches of noisy text: repeatable, for training only, and never without a pair."""

import numpy as np
import pytest
import tensorflow as tf

from tf_transformer import Tokenizer
from tf_transformer.text.text_file import TextFile
from training.config import DataConfig, NoiseConfig, VocabularyConfig
from training.data import pipeline
from training.data.noisy_tokens import tokenize_with_noise
from training.data.pipeline import ParallelText
from training.data.vocabulary import train_sentencepiece
from training.noise.draws import pair_keys

# With a number of its own on both sides, which noise leaves alone, and more than are tokenized at
# once.
PAIRS = [
    (f"the {color[0]} house {n} is sold.", f"das Haus {n} wird {color[1]} verkauft.")
    for n in range(150)
    for color in (("red", "rot"), ("blue", "blau"))
]
NOISE = NoiseConfig(upper=0.1, title=0.1, no_end=0.2, typos=0.02, copies=0.1)


@pytest.fixture(scope="module")
def make(tmp_path_factory):
    """A function that makes the `ParallelText` of `PAIRS`, or of other pairs."""
    texts = {}

    def make_text(noise=NOISE, pairs=tuple(PAIRS), byte_fallback=True, **settings):
        kind = VocabularyConfig(kind="char", normalization="identity", byte_fallback=byte_fallback)
        model = train_sentencepiece([line for pair in PAIRS for line in pair], kind)
        if pairs not in texts:
            texts[pairs] = tmp_path_factory.mktemp("pairs")
            for side, name in enumerate(("source", "target")):
                lines = "".join(f"{pair[side]}\n" for pair in pairs)
                (texts[pairs] / name).write_text(lines, encoding="utf-8")
        files = [TextFile(texts[pairs] / name) for name in ("source", "target")]
        config = DataConfig(**({"batch_tokens": 600, "max_length": 100} | settings), noise=noise)
        return ParallelText(*files, Tokenizer(model), Tokenizer(model), config)

    return make_text


def collect(batches, number):
    return [tf.nest.map_structure(np.array, batch) for batch in batches.take(number)]


def assert_equal(batches, others):
    tf.nest.map_structure(np.testing.assert_array_equal, batches, others)


def pairs_of(text, batches):
    """The texts of all pairs."""
    tokenizer = text.target_tokenizer
    return [
        tuple(line.decode() for line in pair)
        for inputs, labels in batches
        for pair in zip(
            *(
                tokenizer.detokenize(tf.constant(side)).numpy()
                for side in (inputs["source"], labels)
            ),
            strict=True,
        )
    ]


@pytest.fixture(scope="module")
def noisy(make):
    """The text with noise, and its first batches of training."""
    text = make()
    return text, collect(text.training_batches(1), 60)


def number_of(text):
    return next(int(word) for word in text.split() if word.isdecimal() and int(word) < 150)


@pytest.mark.slow
def test_a_resumed_run_gets_the_same_noise(noisy):
    text, batches = noisy
    assert sum(len(labels) for _, labels in batches) > 2 * len(PAIRS)
    assert_equal(collect(text.training_batches(1, 44), 6), batches[44:50])
    other = collect(text.training_batches(2), 3)
    assert any(
        labels.shape != wanted.shape or (labels != wanted).any()
        for (_, labels), (_, wanted) in zip(other, batches, strict=False)
    )


@pytest.mark.exhaustive
@pytest.mark.slow
def test_each_epoch_has_all_pairs_and_other_noise(make):
    text = make(NoiseConfig(upper=0.3), batch_sentences=1, shuffle_buffer=1)
    epochs = [
        pairs_of(text, collect(text.training_batches(1).skip(start), len(PAIRS)))
        for start in (0, len(PAIRS))
    ]
    for epoch in epochs:
        assert sorted(pair[1].lower() for pair in epoch) == sorted(x[1].lower() for x in PAIRS)
        assert all(source.isupper() == target.isupper() for source, target in epoch)
    uppers = [{pair for pair in epoch if pair[0].isupper()} for epoch in epochs]
    assert uppers[0] != uppers[1]
    assert all(50 < len(upper) < 130 for upper in uppers)


@pytest.mark.slow
def test_pairs_stay_parallel_and_in_their_buckets(noisy):
    text, batches = noisy
    pairs = pairs_of(text, batches)
    assert all(number_of(source) == number_of(target) for source, target in pairs)
    assert sum(pair not in set(PAIRS) for pair in pairs) > len(pairs) / 4
    for inputs, labels in batches:
        assert len(labels) * max(labels.shape[1], inputs["source"].shape[1]) <= 600


@pytest.mark.slow
def test_noise_that_never_applies_changes_no_bit(make):
    """No sentence ends with the punctuation of the other side."""
    pairs = tuple((source.replace(".", "!"), target) for source, target in PAIRS)
    clean, noisy = (make(noise, pairs) for noise in (NoiseConfig(), NoiseConfig(no_end=1.0)))
    assert_equal(collect(noisy.training_batches(1), 40), collect(clean.training_batches(1), 40))


@pytest.mark.slow
def test_rates_of_zero_add_nothing(make, monkeypatch):
    """The pipeline is the one without noise: no line gets a number or a key."""

    def fail(*_):
        raise AssertionError

    for name in ("pair_keys", "tokenize_with_noise"):
        monkeypatch.setattr(pipeline, name, fail)
    text = make(NoiseConfig())
    collect(text.training_batches(1), 1)
    with pytest.raises(AssertionError):
        make().training_batches(1)


@pytest.mark.slow
def test_validation_and_statistics_have_no_noise(make):
    clean, noisy = make(NoiseConfig()), make()
    assert_equal(collect(noisy.batches(), -1), collect(clean.batches(), -1))
    assert noisy.statistics("") == clean.statistics("")


def tokenized(text, pairs, **changes):
    noise = NoiseConfig(**changes)
    config = DataConfig(max_length=text.config.max_length, noise=noise)
    keys = pair_keys(1, tf.range(len(pairs)))
    tokenizers = (text.source_tokenizer, text.target_tokenizer)
    sides = (tf.constant(side) for side in zip(*pairs, strict=True))
    ids = tokenize_with_noise(*sides, keys, tokenizers, config)
    found = [text.target_tokenizer.detokenize(side).numpy() for side in ids]
    return [(source.decode(), target.decode()) for source, target in zip(*found, strict=True)]


def test_a_pair_that_would_become_too_long_is_unchanged(make):
    """A character is a token here, and the first word begins with a blank."""
    pairs = [("ab" * n, "ba" * m) for n in range(1, 20) for m in (3, 17, 19)]
    text = make(max_length=36)
    result = tokenized(text, pairs, copies=1.0)
    changed = 0
    for (source, target), pair in zip(result, pairs, strict=True):
        assert max(len(source), len(target)) + 2 <= 36 or (source, target) == pair
        assert (source != pair[0]) == (target != pair[1])
        changed += source != pair[0]
    assert 0 < changed < len(pairs)
    # Nor do typos shorten one that is left out in training.
    long = [("ab" * 18, "ba")] * 200
    assert tokenized(text, long, typos=0.1) == long


def test_a_target_gets_no_unknown_piece(make):
    """Without bytes, characters that the vocabulary lacks are unknown: emoji, and capitals."""
    pairs = PAIRS[:100]
    text = make(byte_fallback=False)
    result = tokenized(text, pairs, copies=1.0)
    assert not any("\u2047" in target for _, target in result)
    assert result != pairs
    with_bytes = tokenized(make(), pairs, copies=1.0)
    assert all(pair != clean for pair, clean in zip(with_bytes, pairs, strict=True))
    assert tokenized(text, pairs, upper=1.0) == pairs
    # An unknown piece of the source teaches nothing wrong, nor does one that was there before.
    assert "\u2047" in tokenized(text, [("Z", "rot.")], typos=1.0)[0][0]
    assert tokenized(text, [("rot.", "\u2047 rot.")], no_end=1.0)[0][1].endswith("rot")


def test_an_empty_side_stays_empty(make):
    text = make()
    pairs = [("", "rot."), ("red.", ""), ("", "")]
    assert tokenized(text, pairs, copies=1.0, upper=1.0) == pairs
