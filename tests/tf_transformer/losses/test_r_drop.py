"""R-Drop in chunks against its equations."""

import numpy as np
import pytest
import tensorflow as tf

from tests.tf_transformer.losses.test_fused_cross_entropy import (
    DIVISOR,
    LABELS,
    VOCAB,
    WIDTH,
    assert_same,
    value_and_gradients,
)
from tf_transformer.losses.fused_cross_entropy import projected_cross_entropy
from tf_transformer.losses.label_smoothing import SMOOTHED_OVER, LabelSmoothedCrossEntropy
from tf_transformer.losses.r_drop import symmetric_divergence

ALPHA = 3.0


@pytest.fixture
def arrays():
    rng = np.random.default_rng(1)
    shapes = ((2, *LABELS.shape, WIDTH), (VOCAB, WIDTH), (VOCAB,))
    return [tf.constant(rng.normal(size=shape), tf.float32) for shape in shapes]


def plain(hidden, table, bias, label_smoothing, smoothed_over):
    """Equations 1 to 4 of the paper, over the logits of both passes."""
    logits = tf.linalg.matmul(tf.cast(hidden, tf.float32), table, transpose_b=True)
    logits = logits if bias is None else logits + bias
    loss = LabelSmoothedCrossEntropy(label_smoothing, smoothed_over=smoothed_over)
    cross_entropies = sum(loss.token_losses(LABELS, logits[index]) for index in (0, 1))
    p, q = (tf.nn.softmax(logits[index]) for index in (0, 1))
    divergences = (
        tf.keras.losses.KLDivergence(reduction="none")(x, y) for x, y in ((p, q), (q, p))
    )
    divergence = tf.where(LABELS != 0, 0.5 * sum(divergences), 0.0)
    return tf.reduce_sum(cross_entropies + ALPHA * divergence) / DIVISOR


def in_chunks(hidden, table, bias, label_smoothing, smoothed_over, chunk=4):
    rows = tf.concat([tf.boolean_mask(hidden[index], LABELS != 0) for index in (0, 1)], axis=0)
    return projected_cross_entropy(
        rows, table, bias, LABELS, DIVISOR, label_smoothing, smoothed_over, ALPHA, chunk
    )[0]


@pytest.mark.parametrize("smoothed_over", SMOOTHED_OVER)
@pytest.mark.parametrize("label_smoothing", [0.0, 0.1])
@pytest.mark.parametrize("has_bias", [True, False])
def test_equals_the_equations(arrays, smoothed_over, label_smoothing, has_bias):
    arrays[2] = arrays[2] if has_bias else None
    arguments = arrays, label_smoothing, smoothed_over
    expected = value_and_gradients(plain, *arguments)
    assert_same(value_and_gradients(in_chunks, *arguments), expected, 1e-5)


@pytest.mark.representatives("1", "7")
@pytest.mark.slow
@pytest.mark.parametrize("chunk", [1, 2, 3, 7, 100])
def test_any_chunk(arrays, chunk):
    """20 rows of 10 tokens; the two of a token stay together."""
    found = value_and_gradients(tf.function(in_chunks), arrays, 0.1, "all", chunk=chunk)
    assert_same(found, value_and_gradients(plain, arrays, 0.1, "all"), 1e-5)


def test_bfloat16(arrays):
    arrays[0] = tf.cast(arrays[0], tf.bfloat16)
    found = value_and_gradients(in_chunks, arrays, 0.1, "all")
    assert found[1].dtype == tf.bfloat16
    assert_same(found, value_and_gradients(plain, arrays, 0.1, "all"), 1e-2)


def test_no_tokens(arrays, monkeypatch):
    monkeypatch.setattr(f"{__name__}.LABELS", np.zeros_like(LABELS))
    for value in value_and_gradients(in_chunks, arrays, 0.1, "all"):
        np.testing.assert_array_equal(value.numpy(), 0.0)


def test_extreme_logits_are_finite(arrays):
    """Where p is 0 and log p is -infinity, as far as float32 goes."""
    arrays[1] *= 200.0
    for value in value_and_gradients(in_chunks, arrays, 0.1, "all"):
        assert np.isfinite(value.numpy()).all()


def test_equal_passes_have_no_divergence(arrays):
    hidden, table, bias = arrays
    same = tf.stack([hidden[0], hidden[0]])
    rows = tf.boolean_mask(hidden[0], LABELS != 0)
    one = projected_cross_entropy(rows, table, bias, LABELS, DIVISOR, 0.1)[0]
    np.testing.assert_allclose(in_chunks(same, table, bias, 0.1, "all"), 2 * one, rtol=1e-6)


def test_the_symmetric_divergence():
    """Of (1/2, 1/2) and (3/4, 1/4): 1/2 (1/4 ln 2/3 ... ) written out."""
    p, q = np.array([0.5, 0.5]), np.array([0.75, 0.25])
    expected = 0.5 * (np.sum(p * np.log(p / q)) + np.sum(q * np.log(q / p)))
    found = symmetric_divergence(np.log(p) + 3.0, np.log(q) - 1.0)
    assert float(found) == pytest.approx(expected, rel=1e-6)


def test_metrics_are_the_mean_of_both_passes(arrays):
    hidden, table, bias = arrays
    rows = tf.concat([tf.boolean_mask(hidden[index], LABELS != 0) for index in (0, 1)], axis=0)
    loss, losses = projected_cross_entropy(
        rows, table, bias, LABELS, DIVISOR, 0.1, "all", ALPHA, chunk_size=4
    )
    np.testing.assert_allclose(tf.reduce_sum(losses.smoothed) / DIVISOR, loss, rtol=1e-6)
    logits = tf.linalg.matmul(hidden, table, transpose_b=True) + bias
    log_probs = tf.gather(tf.nn.log_softmax(logits), [LABELS, LABELS], batch_dims=3)
    surprisal = -tf.reduce_sum(tf.where(LABELS != 0, log_probs, 0.0))
    np.testing.assert_allclose(tf.reduce_sum(losses.surprisal), surprisal, rtol=1e-5)
