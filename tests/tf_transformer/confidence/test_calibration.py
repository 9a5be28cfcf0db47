"""Platt scaling finds the parameters of its data; the calibration error is that of its equation."""

import numpy as np
import pytest

from tf_transformer.confidence.calibration import (
    Calibration,
    confidences,
    expected_calibration_error,
    fit,
    read_calibration,
    write_calibration,
)


def test_fit_finds_the_parameters_of_the_data():
    random = np.random.default_rng(0)
    log_odds = random.normal(1.0, 3.0, 200_000)
    is_right = (random.random(log_odds.size) < confidences(log_odds, 0.6, -0.8)).astype(float)
    np.testing.assert_allclose(fit(log_odds, is_right), (0.6, -0.8), atol=0.02)


def test_fit_is_the_most_probable():
    """No parameters nearby give a higher likelihood."""
    random = np.random.default_rng(1)
    log_odds = random.normal(0.0, 2.0, 500)
    is_right = (random.random(500) < confidences(log_odds, 1.5, 0.3)).astype(float)
    best = np.array(fit(log_odds, is_right))

    def likelihood(parameters):
        found = confidences(log_odds, *parameters)
        return np.log(np.where(is_right > 0, found, 1 - found)).sum()

    for change in ([0.01, 0], [-0.01, 0], [0, 0.01], [0, -0.01]):
        assert likelihood(best) > likelihood(best + change)


@pytest.mark.parametrize("is_right", [[1, 1], [0, 0], []])
def test_fit_needs_both_outcomes(is_right):
    with pytest.raises(ValueError, match=r"expected right and wrong words to calibrate with"):
        fit(np.zeros(len(is_right)), np.array(is_right, float))


def test_fit_refuses_probabilities_that_mislead():
    with pytest.raises(ValueError, match=r"expected a positive scale. Received: scale -"):
        fit(np.array([-2.0, -1, 1, 2] * 10), np.array([1.0, 1, 0, 1] * 5 + [1.0, 0, 0, 0] * 5))


def test_calibration_error_by_its_equation():
    random = np.random.default_rng(2)
    confidence, outcome = random.random(1000), (random.random(1000) < 0.5).astype(float)
    confidence[:2] = 0.0, 1.0
    expected = 0.0
    for low in range(10):
        within = [
            index
            for index, x in enumerate(confidence)
            if low <= x * 10 < low + 1 or (low == 9 and x == 1)
        ]
        gap = np.mean(confidence[within]) - np.mean(outcome[within])
        expected += len(within) / 1000 * abs(gap)
    assert expected_calibration_error(confidence, outcome, 10) == pytest.approx(expected)
    assert expected_calibration_error(np.array([0.25] * 4), np.array([1.0, 0, 0, 0])) == 0


def test_a_file_is_read_again(tmp_path):
    path = tmp_path / "confidence.json"
    write_calibration(path, Calibration(1.5, -0.5, "abc"), {"words": 3})
    assert read_calibration(path, "abc") == Calibration(1.5, -0.5, "abc")
    with pytest.raises(ValueError, match=r"belongs to the model with the weights digest 'abc'"):
        read_calibration(path, "abd")


@pytest.mark.parametrize(
    "content",
    [
        "{}",
        '{"format_version": 1, "scale": true, "offset": 0, "weights_digest": "abc"}',
        '{"format_version": 1, "scale": "1.5", "offset": 0, "weights_digest": "abc"}',
        '{"format_version": 2, "scale": 1, "offset": 0, "weights_digest": "abc"}',
        '{"format_version": 1, "scale": -1, "offset": 0, "weights_digest": "abc"}',
        '{"format_version": 1, "scale": 1e300, "offset": 0, "weights_digest": "abc"}',
        '{"format_version": 1, "scale": [1], "offset": 0, "weights_digest": "abc"}',
        '{"format_version": 1, "scale": 1, "offset": "x", "weights_digest": "abc"}',
        '{"format_version": 1, "scale": 1, "offset": 0, "weights_digest": 3}',
    ],
)
def test_other_files_are_refused(tmp_path, content):
    path = tmp_path / "confidence.json"
    path.write_text(content)
    with pytest.raises(ValueError, match=r"expected a file that `train-confidence` has written"):
        read_calibration(path, "abc")
