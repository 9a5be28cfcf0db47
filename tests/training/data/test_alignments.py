"""From lines of links to aligned tokens, against the definition in Python."""

import itertools

import numpy as np
import pytest
import tensorflow as tf

from tests.conftest import small_config
from tf_transformer import Tokenizer
from tf_transformer.text.framing import move_tags
from tf_transformer.text.text_file import TextFile
from training.batches import move_batch_tags
from training.config import DataConfig, VocabularyConfig
from training.data.alignments import align_tokens, move_alignment, read_links
from training.data.augmentation import augment
from training.data.change_detection import ChangeDetector
from training.data.corpus_report import report_corpus
from training.data.pipeline import ParallelText
from training.data.text_pair import TextPair
from training.data.vocabulary import train_sentencepiece

PAIRS = [
    ("the red house", "das rote Haus", "0-0 1-1 2-2"),
    ("", "x", ""),
    ("red  houses are sold", "verkauft werden rote Häuser", "0-2 1-3 2-1 3-0 3-1"),
    ("a house", "ein\u3000Haus", ""),
    ("a ho´use", "ein Haus", "0-0 1-1"),  # in which NFKC finds three words
    ("sold", "schon lange verkauft", "0?0 0-2"),
]


@pytest.fixture(scope="module")
def tokenizer():
    lines = [line for pair in PAIRS for line in pair[:2]] * 3
    return Tokenizer(train_sentencepiece(lines, VocabularyConfig(size=310)))


@pytest.fixture
def texts(tmp_path):
    for part, name in enumerate(("source", "target", "align")):
        text = "".join(f"{pair[part]}\n" for pair in PAIRS)
        (tmp_path / name).write_text(text, encoding="utf-8")
    return [TextFile(tmp_path / name) for name in ("source", "target", "align")]


def words_of(pieces):
    """The index of each piece's word; -1 at the end and padding."""
    found = []
    for piece in pieces:
        is_special = piece in ("</s>", "<pad>")
        found.append(-1 if is_special else sum(p.startswith("▁") for p in pieces[: len(found) + 1]))
    return [index - 1 if index > 0 else index for index in found]


def expected_alignment(tokenizer, source, labels, links):
    sides = [words_of([tokenizer.pieces[i] for i in ids]) for ids in (source, labels)]
    return [[(s, t) in links and min(s, t) >= 0 for s in sides[0]] for t in sides[1]]


def links_of(line):
    return {tuple(map(int, link.replace("?", "-").split("-"))) for link in line.split()}


@pytest.mark.slow
@pytest.mark.representatives("0.3-0.5")
@pytest.mark.parametrize("subword_dropout", [0.0, 0.5])
@pytest.mark.parametrize("word_dropout", [0.0, 0.3])
def test_aligned_batches(texts, tokenizer, subword_dropout, word_dropout):
    settings = DataConfig(
        batch_tokens=100, subword_dropout=subword_dropout, word_dropout=word_dropout
    )
    corpus = ParallelText(*texts[:2], tokenizer, tokenizer, settings, alignments=texts[2])
    batches = augment(corpus.training_batches(1), settings, tokenizer, tokenizer, 1, 0)
    without_words = DataConfig(batch_tokens=100, subword_dropout=subword_dropout)
    plain = ParallelText(*texts[:2], tokenizer, tokenizer, settings)
    others = augment(plain.training_batches(1), settings, tokenizer, tokenizer, 1, 0)
    undropped = augment(plain.training_batches(1), without_words, tokenizer, tokenizer, 1, 0)
    seen = set()
    for (inputs, labels), (same, same_labels), (whole, _) in zip(
        batches.take(12), others, undropped, strict=False
    ):
        np.testing.assert_array_equal(inputs["source"], same["source"])
        np.testing.assert_array_equal(inputs["target"], same["target"])
        np.testing.assert_array_equal(labels, same_labels)
        assert set(inputs) == {"source", "target", "alignment"}
        found = inputs["alignment"].numpy()
        assert found.shape == (*labels.shape, inputs["source"].shape[1])
        for source, target, row in zip(whole["source"], labels, found, strict=True):
            text = tokenizer.detokenize(tf.stack([target])).numpy()[0].decode()
            pair = next(pair for pair in PAIRS if " ".join(pair[1].split()) == text)
            if pair[0] == "a house" or "´" in pair[0]:
                assert not row.any()
                continue
            seen.add(pair)
            links = links_of(pair[2])
            assert row.tolist() == expected_alignment(tokenizer, source.numpy(), target, links)
            assert row.any()
    assert len(seen) == 3


@pytest.mark.slow
def test_links_that_cannot_be_used_are_counted(texts, tokenizer, caplog):
    corpus = ParallelText(*texts[:2], tokenizer, tokenizer, DataConfig(), alignments=texts[2])
    statistics = corpus.statistics("")
    assert (statistics.pairs, statistics.kept, statistics.aligned) == (6, 5, 3)
    caplog.set_level("INFO", "training")
    report_corpus("training", corpus)
    assert "word alignments: of 3 pairs" in caplog.text
    texts[2].path.write_text("\n" * 4 + "0-0\n\n")
    with pytest.raises(ValueError, match="no pair has links of the words that SentencePiece"):
        report_corpus("training", corpus)


def test_read_links_without_links(tokenizer):
    text = tf.constant(["a house", "red"])
    ids = tokenizer.tokenize(text)
    sides = ((text, ids, tokenizer), (text, ids, tokenizer))
    assert read_links(tf.constant(["", ""]), sides).to_list() == [[], []]
    empty = align_tokens((ids, tokenizer), (ids, tokenizer), tf.zeros([2, 0], tf.int32))
    assert not empty.numpy().any()


def test_tags_move(tokenizer):
    """With a tag per side: a link of the tag is lost, and the label of the tag is unaligned."""
    source = np.array([[9, 4, 5, 3], [9, 6, 3, 0]])
    labels = np.array([[7, 8, 3], [7, 3, 0]])
    target = np.array([[2, 7, 8], [2, 7, 0]])
    alignment = np.random.default_rng(1).random((2, 3, 4)) < 0.5
    inputs, moved_labels = move_tags({"source": source, "target": target}, labels, 1)
    moved = move_alignment(tf.constant(alignment), 1).numpy()
    assert moved.shape == (*moved_labels.shape, inputs["source"].shape[1])
    assert not moved[:, 0].any()
    for row, j, i in itertools.product(range(2), range(3), range(1, 4)):
        assert moved[row, j + 1, i - 1] == alignment[row, j, i]
    inputs = {"source": source, "target": target, "alignment": alignment}
    batches = tf.data.Dataset.from_tensors((inputs, labels))
    ((of_training, _),) = move_batch_tags(batches, 1)
    np.testing.assert_array_equal(of_training["alignment"], moved)


def test_changes_are_detected_and_in_the_digest(texts):
    source, target, alignments = texts
    without = ChangeDetector(source, target)
    detector = ChangeDetector(source, target, alignments)
    assert detector.digest != without.digest
    detector.check()
    alignments.path.write_text("\n" * 6)
    without.check()
    with pytest.raises(ValueError, match="align has changed during training"):
        detector.check()
    assert ChangeDetector(source, target, alignments).digest != detector.digest


def test_a_text_is_checked(texts):
    source, target, alignments = texts
    TextPair(source, target, alignments).check([], 1)
    alignments.path.write_text("0-0 1-5\n" + "\n" * 5)
    with pytest.raises(ValueError, match=r"align:1: the link 1-5 is of a word that the target"):
        TextPair(source, target, alignments).check([], 1)


def test_default_weight():
    assert small_config().optimization.alignment_weight == 0.05
