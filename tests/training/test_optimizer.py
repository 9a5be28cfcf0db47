"""Adam against Keras' own, clipping, and updates that are skipped."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from tf_transformer.losses.schedule import NoamSchedule
from training.optimizer import Adam

STARTS = (np.ones((3, 4), "float32"), np.full(5, 2.0, "float32"))


def random_gradients(count, scale=1.0):
    rng = np.random.default_rng(1)
    return [
        [scale * rng.normal(size=start.shape).astype("float32") for start in STARTS]
        for _ in range(count)
    ]


def run(optimizer, updates):
    """The variables after these gradients, applied in a graph as training does."""
    variables = [keras.Variable(start) for start in STARTS]
    optimizer.build(variables)
    apply = tf.function(lambda gradients: optimizer.apply(gradients, variables))
    for gradients in updates:
        apply([tf.constant(gradient) for gradient in gradients])
    return [variable.numpy() for variable in variables]


def keras_adam(learning_rate):
    return keras.optimizers.Adam(learning_rate, beta_1=0.9, beta_2=0.98, epsilon=1e-9)


@pytest.mark.slow
def test_equals_keras():
    updates = random_gradients(20)
    for ours, theirs in zip(
        run(Adam(NoamSchedule(8, 10)), updates),
        run(keras_adam(NoamSchedule(8, 10)), updates),
        strict=True,
    ):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)


def test_clips_by_the_global_norm():
    (gradients,) = random_gradients(1, scale=10.0)
    norm = np.sqrt(sum(np.sum(np.square(gradient)) for gradient in gradients))
    small = random_gradients(3)[1:]
    optimizer = Adam(0.1, clip_norm=2.0)
    run(optimizer, [gradients])
    assert optimizer.gradient_norm.numpy() == pytest.approx(norm, rel=1e-5)
    # Adam forgets the scale of a single update: a second one shows what entered the moments.
    clipped = run(Adam(0.1, clip_norm=2.0), [gradients, *small])
    expected = run(
        keras_adam(0.1),
        [
            [gradient * min(1.0, 2.0 / _norm(update)) for gradient in update]
            for update in [gradients, *small]
        ],
    )
    for ours, theirs in zip(clipped, expected, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)


def _norm(update):
    return np.sqrt(sum(np.sum(np.square(gradient)) for gradient in update))


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_skips_an_update_that_is_not_finite(bad):
    """Nothing moves but the count of steps, which the data and the learning rate follow."""
    updates = random_gradients(3)
    optimizer = Adam(0.1)
    before = run(optimizer, updates)
    state = [np.array(variable) for variable in optimizer.variables[2:]]
    broken = [updates[0][0].copy(), updates[0][1]]
    broken[0][1, 2] = bad
    after_optimizer = Adam(0.1)
    after = run(after_optimizer, [*updates, broken])
    for ours, theirs in zip(after, before, strict=True):
        np.testing.assert_array_equal(ours, theirs)
    names = [variable.name for variable in after_optimizer.variables[2:]]
    for name, variable, former in zip(names, after_optimizer.variables[2:], state, strict=True):
        if name not in ("gradient_norm", "skipped"):
            np.testing.assert_array_equal(variable, former, err_msg=name)
    assert int(after_optimizer.iterations.numpy()) == 4
    assert int(after_optimizer.skipped.numpy()) == 1


def test_goes_on_after_a_skipped_update():
    updates = random_gradients(3)
    broken = [np.full_like(start, np.nan) for start in STARTS]
    for ours, theirs in zip(
        run(Adam(0.1), [broken, *updates]), run(Adam(0.1), updates), strict=True
    ):
        assert np.isfinite(ours).all()
        # One step later, so that the bias correction differs a little.
        np.testing.assert_allclose(ours, theirs, atol=0.1)


@pytest.mark.slow
def test_keeps_an_average_of_the_weights():
    updates = random_gradients(30)
    averages = [start.astype("float64") for start in STARTS]
    plain = Adam(NoamSchedule(8, 10))
    trained = [keras.Variable(start) for start in STARTS]
    plain.build(trained)
    for t, gradients in enumerate(updates, 1):
        decay = min(0.7, (1 + t) / (10 + t))
        plain.apply([tf.constant(gradient) for gradient in gradients], trained)
        weights = [variable.numpy() for variable in trained]
        averages = [
            decay * average + (1 - decay) * weight
            for average, weight in zip(averages, weights, strict=True)
        ]
    optimizer = Adam(NoamSchedule(8, 10), average_decay=0.7)
    variables = [keras.Variable(start) for start in STARTS]
    optimizer.build(variables)
    apply = tf.function(lambda gradients: optimizer.apply(gradients, variables))
    for gradients in updates:
        apply([tf.constant(gradient) for gradient in gradients])
    with optimizer.averaged_weights(variables):
        for variable, average in zip(variables, averages, strict=True):
            np.testing.assert_allclose(variable.numpy(), average, rtol=1e-5)
    weights = run(Adam(NoamSchedule(8, 10)), updates)
    for variable, weight in zip(variables, weights, strict=True):
        np.testing.assert_array_equal(variable.numpy(), weight)


def test_without_an_average_the_weights_stay():
    optimizer = Adam(0.1)
    variables = [keras.Variable(start) for start in STARTS]
    optimizer.build(variables)
    with optimizer.averaged_weights(variables):
        np.testing.assert_array_equal(variables[0].numpy(), STARTS[0])


@pytest.mark.slow
def test_scaled_gradients_give_the_same_updates():
    """The scale is halved by an infinite gradient and doubled after 2,000 finite ones."""
    optimizer = Adam(NoamSchedule(8, 10), clip_norm=2.0, scales_loss=True)
    variables = [keras.Variable(start) for start in STARTS]
    optimizer.build(variables)
    apply = tf.function(lambda gradients: optimizer.apply(gradients, variables))
    assert optimizer.loss_scale.numpy() == 2**15
    updates = random_gradients(3)
    for gradients in updates:
        apply([tf.constant(gradient) * optimizer.loss_scale for gradient in gradients])
    expected = run(Adam(NoamSchedule(8, 10), clip_norm=2.0), updates)
    for variable, value in zip(variables, expected, strict=True):
        np.testing.assert_allclose(variable.numpy(), value, rtol=1e-5)
    apply([tf.fill(start.shape, np.inf) for start in STARTS])
    assert optimizer.loss_scale.numpy() == 2**14
    assert optimizer.skipped.numpy() == 1
    zeros = [tf.zeros(start.shape) for start in STARTS]
    for _ in range(1999):
        apply(zeros)
    assert optimizer.loss_scale.numpy() == 2**14
    apply(zeros)
    assert optimizer.loss_scale.numpy() == 2**15
