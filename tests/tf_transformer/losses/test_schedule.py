"""The learning rate against equation 3."""

import json
import math

import keras
import numpy as np
import pytest

from tests.numpy_reference import noam_rate
from tf_transformer.losses.schedule import NoamSchedule


@pytest.fixture(autouse=True)
def seed():
    keras.utils.set_random_seed(1)


@pytest.mark.parametrize(
    ("d_model", "warmup_steps", "factor"), [(512, 4000, 1.0), (128, 10, 2.5), (8, 1, 0.5)]
)
def test_values(d_model, warmup_steps, factor):
    schedule = NoamSchedule(d_model, warmup_steps=warmup_steps, factor=factor)
    for step in (0, 1, 2, 7, 8, 9, 10, 11, 500, 3998, 3999, 4000, 100_000):
        np.testing.assert_allclose(
            schedule(step), noam_rate(step, d_model, warmup_steps, factor), rtol=1e-6
        )


def test_values_known_from_the_paper():
    """d_model 512 and 4,000 warm-up steps peak at 1 / sqrt(2,048,000)."""
    schedule = NoamSchedule(512)
    np.testing.assert_allclose(schedule(3999), 1 / math.sqrt(512 * 4000), rtol=1e-6)
    np.testing.assert_allclose(schedule(3999), 6.987712e-4, rtol=1e-6)
    np.testing.assert_allclose(schedule(0), 1.746928e-7, rtol=1e-6)


def test_rises_to_its_peak_then_falls():
    rates = np.array([float(NoamSchedule(32, warmup_steps=20)(step)) for step in range(60)])
    assert rates.argmax() == 19
    assert (np.diff(rates[:20]) > 0).all()
    assert (np.diff(rates[19:]) < 0).all()


def test_initial_and_minimum_rate():
    """NiuTensor: linear from one rate to the peak, then the inverse square root, then constant."""
    peak, warmup, initial, minimum = 0.0015, 8000, 1e-4, 2e-4
    schedule = NoamSchedule(
        512,
        warmup,
        factor=peak * math.sqrt(512 * warmup),
        initial_rate=initial,
        minimum_rate=minimum,
    )
    for update in (1, 10, 4000, 7999, 8000, 8001, 100_000, 449_999, 450_001, 10_000_000):
        if update <= warmup:
            expected = initial + (peak - initial) * update / warmup
        else:
            expected = peak * math.sqrt(warmup / update)
        np.testing.assert_allclose(schedule(update - 1), max(expected, minimum), rtol=1e-5)


@pytest.mark.parametrize("name", ["initial_rate", "minimum_rate"])
def test_rates_must_not_be_negative(name):
    with pytest.raises(ValueError, match=rf"`{name}` must not be negative. Received: {name}=-1"):
        NoamSchedule(8, **{name: -1})


def test_first_update_of_an_optimizer_is_number_one():
    """Keras passes 0 before the first update; the formula would give a rate of 0 there."""
    optimizer = keras.optimizers.SGD(NoamSchedule(4, warmup_steps=2))
    variable = keras.Variable(np.zeros(1, "float32"))
    total = 0.0
    for step in range(4):
        optimizer.apply([np.ones(1, "float32")], [variable])
        total -= noam_rate(step, 4, 2)
        np.testing.assert_allclose(variable, [total], rtol=1e-6)


def test_config_round_trip():
    schedule = NoamSchedule(128, 1500, 2.5, initial_rate=1e-7, minimum_rate=1e-9)
    config = json.loads(json.dumps(schedule.get_config()))
    assert config == {
        "d_model": 128,
        "warmup_steps": 1500,
        "factor": 2.5,
        "initial_rate": 1e-7,
        "minimum_rate": 1e-9,
    }
    assert NoamSchedule.from_config(config).get_config() == config


def test_serialisation_inside_an_optimizer():
    optimizer = keras.optimizers.Adam(NoamSchedule(128, warmup_steps=7, factor=3.0))
    serialised = json.loads(json.dumps(keras.saving.serialize_keras_object(optimizer)))
    schedule = serialised["config"]["learning_rate"]
    assert schedule["registered_name"] == "tf_transformer>NoamSchedule"
    restored = keras.saving.deserialize_keras_object(serialised)
    np.testing.assert_allclose(restored.learning_rate, noam_rate(0, 128, 7, 3.0), rtol=1e-6)


@pytest.mark.parametrize("name", ["d_model", "warmup_steps", "factor"])
@pytest.mark.parametrize("value", [0, -1, float("nan")])
def test_arguments_must_be_positive(name, value):
    arguments = {"d_model": 8, "warmup_steps": 4, "factor": 1.0} | {name: value}
    with pytest.raises(ValueError, match=rf"`{name}` must be positive. Received: {name}={value}"):
        NoamSchedule(**arguments)
