"""Noise of training: what it may change, how often, and that it can be repeated."""

import collections

import numpy as np
import pytest
import sentencepiece
import tensorflow as tf

from tests.conftest import small_config
from tf_transformer import Tokenizer
from tf_transformer.text.text_file import TextFile
from training.config import DataConfig, VocabularyConfig
from training.data.augmentation import augment, drop_words, piece_parts, split_pieces
from training.data.pipeline import ParallelText
from training.data.vocabulary import train_sentencepiece

LINES = [f"the {color} house number {n} is sold" for n in range(60) for color in ("red", "blue")]
SEED = tf.constant([3, 4], tf.int64)


@pytest.fixture(scope="module", params=["bpe", "unigram"])
def tokenizer(request) -> Tokenizer:
    settings = VocabularyConfig(size=340 if request.param == "bpe" else 300, kind=request.param)
    return Tokenizer(train_sentencepiece(LINES, settings))


def test_parts_make_up_their_piece(tokenizer):
    parts = piece_parts(tokenizer)
    pieces = tokenizer.pieces
    known = {piece for piece in pieces if not piece.startswith("<")}
    for piece, (left, right) in zip(pieces, parts, strict=True):
        can = piece in known and any(
            piece[:n] in known and piece[n:] in known for n in range(1, len(piece))
        )
        assert (left >= 0) == (right >= 0) == can
        assert not can or pieces[left] + pieces[right] == piece
    assert (parts >= 0).any()


@pytest.mark.slow
def test_cut_sentences_are_the_same_text(tokenizer):
    parts = piece_parts(tokenizer)
    ids = tokenizer.tokenize(tf.constant([*LINES, "", "number 我"]))
    finer = split_pieces(ids, parts, 0.4, 1000, SEED)
    assert finer.dtype == tf.int32
    assert finer.flat_values.shape[0] > ids.flat_values.shape[0]
    processor = sentencepiece.SentencePieceProcessor(model_proto=tokenizer.model)
    for before, after in zip(ids.to_list(), finer.to_list(), strict=True):
        assert processor.decode(after) == processor.decode(before)
    assert finer.to_list() == split_pieces(ids, parts, 0.4, 1000, SEED).to_list()
    assert finer.to_list() != split_pieces(ids, parts, 0.4, 1000, SEED + 1).to_list()


@pytest.mark.slow
def test_extreme_rates_and_the_limit(tokenizer):
    parts = piece_parts(tokenizer)
    ids = tokenizer.tokenize(tf.constant(LINES))
    assert split_pieces(ids, parts, 0.0, 1000, SEED).to_list() == ids.to_list()

    def all_cut(number):
        left, right = parts[number]
        return [number] if left < 0 else [*all_cut(left), *all_cut(right)]

    finest = [[part for number in line for part in all_cut(number)] for line in ids.to_list()]
    assert split_pieces(ids, parts, 1.0, 1000, SEED).to_list() == finest
    limit = int(np.median([len(line) for line in finest]))
    expected = [f if len(f) <= limit else i for f, i in zip(finest, ids.to_list(), strict=True)]
    assert split_pieces(ids, parts, 1.0, limit, SEED).to_list() == expected


def test_rate_of_cuts():
    """Piece 6 is made of 5 and 4, piece 5 of 4 and 4: one cut in 0.3, two in 0.3 of these."""
    parts = np.full((7, 2), -1, np.int32)
    parts[5], parts[6] = (4, 4), (5, 4)
    ids = tf.RaggedTensor.from_row_lengths(tf.fill([20_000], 6), tf.ones([20_000], tf.int32))
    counts = collections.Counter(map(tuple, split_pieces(ids, parts, 0.3, 9, SEED).to_list()))
    assert set(counts) == {(6,), (5, 4), (4, 4, 4)}
    assert counts[6,] / 20_000 == pytest.approx(0.7, abs=0.015)
    assert counts[5, 4] / 20_000 == pytest.approx(0.3 * 0.7, abs=0.015)
    assert counts[4, 4, 4] / 20_000 == pytest.approx(0.3 * 0.3, abs=0.015)


def test_dropped_words():
    ids = tf.ragged.constant([[7, 8, 9] * 300, [], [7] * 100], dtype=tf.int32)
    dropped = drop_words(ids, 0.2, SEED, kept_ids=[8])
    assert dropped.row_lengths().numpy().tolist() == [900, 0, 100]
    before, after = ids.flat_values.numpy(), dropped.flat_values.numpy()
    assert set(after[after != before].tolist()) == {1}
    assert not (after != before)[before == 8].any()
    assert np.mean((after == 1)[before != 8]) == pytest.approx(0.2, abs=0.05)
    assert dropped.to_list() == drop_words(ids, 0.2, SEED, kept_ids=[8]).to_list()


@pytest.fixture(scope="module")
def make(tokenizer, tmp_path_factory):
    path = tmp_path_factory.mktemp("text") / "lines"
    path.write_text("".join(f"{line}\n" for line in LINES))

    def make_text(with_source=True, **settings):
        config = DataConfig(batch_tokens=200, max_length=40, **settings)
        source = (TextFile(path), tokenizer) if with_source else (None, None)
        return ParallelText(source[0], TextFile(path), source[1], tokenizer, config)

    return make_text


def training_batches(text, first_step=0):
    """Batches as training gets them."""
    tokenizers = text.source_tokenizer, text.target_tokenizer
    batches = text.training_batches(1, first_step)
    return augment(batches, text.config, *tokenizers, 1, first_step)


def collect(batches, number):
    return [tf.nest.map_structure(np.array, batch) for batch in batches.take(number)]


@pytest.mark.representatives("bpe-True", "unigram-False")
@pytest.mark.slow
@pytest.mark.parametrize("with_source", [True, False])
def test_training_batches_with_noise(make, tokenizer, with_source):
    plain = collect(training_batches(make(with_source)), 12)
    word_dropout = 0.2 if with_source else 0.0
    text = make(with_source, subword_dropout=0.3, word_dropout=word_dropout)
    noisy = collect(training_batches(text), 12)
    assert training_batches(text).element_spec == make(with_source).batches().element_spec
    differences = 0
    for (inputs, labels), (noisy_inputs, noisy_labels) in zip(plain, noisy, strict=True):
        assert inputs.keys() == noisy_inputs.keys()
        texts = [
            tokenizer.detokenize(tf.constant(x)).numpy().tolist() for x in (labels, noisy_labels)
        ]
        assert texts[0] == texts[1]
        differences += labels.shape != noisy_labels.shape
        for label, target in zip(noisy_labels, noisy_inputs["target"], strict=True):
            length = np.count_nonzero(label)
            assert target[0] == 2 and label[length - 1] == 3
            np.testing.assert_array_equal(target[1:length], label[: length - 1])
            assert not label[length:].any() and not target[length:].any()
        if with_source:
            assert (noisy_inputs["source"] == 1).any()
            assert not (noisy_labels == 1).any()
            ends = (noisy_inputs["source"] == 3).sum(axis=1)
            assert (ends == 1).all()
    assert differences > 6
    # A run that goes on meets the same noise; validation meets none.
    resumed = collect(training_batches(text, 5), 7)
    tf.nest.map_structure(np.testing.assert_array_equal, resumed, noisy[5:])
    tf.nest.map_structure(
        np.testing.assert_array_equal,
        collect(text.batches(), -1),
        collect(make(with_source).batches(), -1),
    )


def test_settings():
    with pytest.raises(ValueError, match=r"'data.word_dropout': input should be less than 1"):
        small_config(data__word_dropout=1)
    with pytest.raises(ValueError, match=r"the pieces of 'vocabulary\.kind: char' cannot be split"):
        small_config(data__subword_dropout=0.1, vocabulary__kind="char")
    with pytest.raises(
        ValueError, match=r"'data.word_dropout' applies to the source, which a lang"
    ):
        small_config(data__word_dropout=0.1, model__decoder_only=True)
