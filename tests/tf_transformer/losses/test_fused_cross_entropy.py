"""The loss in chunks against the plain one; `test_label_smoothing.py` checks that one."""

import numpy as np
import pytest
import tensorflow as tf

from tf_transformer.losses.fused_cross_entropy import projected_cross_entropy
from tf_transformer.losses.label_smoothing import SMOOTHED_OVER, LabelSmoothedCrossEntropy
from tf_transformer.losses.metrics import Perplexity, SmoothedLoss, TokenAccuracy

VOCAB, WIDTH = 11, 6
# 1, 6, no and 3 tokens.
LABELS = np.array(
    [[4, 0, 0, 0, 0, 0], [1, 6, 2, 2, 5, 3], [0, 0, 0, 0, 0, 0], [3, 3, 10, 0, 0, 0]], "int32"
)
DIVISOR = 7.0


@pytest.fixture
def arrays():
    rng = np.random.default_rng(1)
    shapes = ((*LABELS.shape, WIDTH), (VOCAB, WIDTH), (VOCAB,))
    return [tf.constant(rng.normal(size=shape), tf.float32) for shape in shapes]


def plain(hidden, table, bias, label_smoothing, smoothed_over):
    logits = tf.linalg.matmul(tf.cast(hidden, tf.float32), table, transpose_b=True)
    logits = logits if bias is None else logits + bias
    loss = LabelSmoothedCrossEntropy(label_smoothing, smoothed_over=smoothed_over)
    return tf.reduce_sum(loss.token_losses(LABELS, logits)) / DIVISOR


def real(hidden):
    return tf.boolean_mask(hidden, LABELS != 0)


def in_chunks(hidden, table, bias, label_smoothing, smoothed_over, chunk=4, **options):
    return projected_cross_entropy(
        *(real(hidden), table, bias, LABELS, DIVISOR, label_smoothing, smoothed_over),
        chunk_size=chunk,
        **options,
    )[0]


def value_and_gradients(function, arrays, *arguments, **options):
    watched = [array for array in arrays if array is not None]
    with tf.GradientTape() as tape:
        tape.watch(watched)
        value = 3.0 * function(*arrays, *arguments, **options)
    return [value, *tape.gradient(value, watched)]


def assert_same(found, expected, tolerance=1e-6):
    for ours, theirs in zip(found, expected, strict=True):
        assert ours.dtype == theirs.dtype
        ours, theirs = (tf.cast(value, tf.float32).numpy() for value in (ours, theirs))
        np.testing.assert_allclose(ours, theirs, atol=tolerance * max(1.0, np.abs(theirs).max()))


@pytest.mark.parametrize("has_bias", [True, False])
def test_a_frozen_matrix_gets_no_gradient(arrays, has_bias):
    hidden, table, bias = arrays
    given = [hidden, table, bias if has_bias else None, 0.1, "all"]
    expected = value_and_gradients(in_chunks, given[:3], *given[3:])
    found = value_and_gradients(in_chunks, given[:3], *given[3:], trains_matrix=False)
    assert found.pop(2) is None
    del expected[2]
    assert_same(found, expected)


@pytest.mark.parametrize("smoothed_over", SMOOTHED_OVER)
@pytest.mark.parametrize("label_smoothing", [0.0, 0.1, 0.6])
@pytest.mark.parametrize("has_bias", [True, False])
def test_equals_the_plain_loss(arrays, smoothed_over, label_smoothing, has_bias):
    arrays[2] = arrays[2] if has_bias else None
    arguments = arrays, label_smoothing, smoothed_over
    assert_same(value_and_gradients(in_chunks, *arguments), value_and_gradients(plain, *arguments))


@pytest.mark.representatives("3", "100")
@pytest.mark.slow
@pytest.mark.parametrize("chunk", [1, 3, 10, 100])
def test_any_chunk(arrays, chunk):
    """10 tokens: each alone, in uneven chunks, all in one."""
    in_graph = tf.function(in_chunks)
    found = value_and_gradients(in_graph, arrays, 0.1, "all", chunk=chunk)
    assert_same(found, value_and_gradients(plain, arrays, 0.1, "all"))


def test_bfloat16(arrays):
    """Of the vectors alone: they come out of a mixed-precision model; the rest is float32."""
    arrays[0] = tf.cast(arrays[0], tf.bfloat16)
    found = value_and_gradients(in_chunks, arrays, 0.1, "all")
    assert found[1].dtype == tf.bfloat16
    assert_same(found, value_and_gradients(plain, arrays, 0.1, "all"))


def test_no_tokens(arrays, monkeypatch):
    monkeypatch.setattr(f"{__name__}.LABELS", np.zeros_like(LABELS))
    for value in value_and_gradients(in_chunks, arrays, 0.1, "all"):
        np.testing.assert_array_equal(value.numpy(), 0.0)


def test_extreme_logits(arrays):
    arrays[1] *= 200.0
    found = value_and_gradients(in_chunks, arrays, 0.1, "all")
    assert_same(found, value_and_gradients(plain, arrays, 0.1, "all"))


def test_metrics_are_those_of_logits(arrays):
    hidden, table, bias = arrays
    _, losses = projected_cross_entropy(real(hidden), table, bias, LABELS, DIVISOR, 0.1)
    logits = tf.linalg.matmul(hidden, table, transpose_b=True) + bias
    for make in (SmoothedLoss, Perplexity, TokenAccuracy):
        of_losses, of_logits = make(), make()
        of_losses.update_with(losses)
        of_logits.update_state(LABELS, logits)
        assert float(of_losses.result()) == pytest.approx(float(of_logits.result()), rel=1e-6)
