"""One device = two devices = two workers: `two_replicas.py` runs apart and is judged here."""

import json
import pathlib
import subprocess
import sys

import numpy as np
import pytest

from tests.training.distributed.test_workers import start_workers

pytestmark = pytest.mark.slow

SCRIPT = pathlib.Path(__file__).with_name("two_replicas.py")
COMPARISONS = [
    "even",
    "odd",
    "several_steps",
    "padding_alone_on_one_device",
    "a_row_for_one_device_alone",
]
KINDS = ["micro_batches", "r_drop", "frozen", "guided"]


@pytest.fixture(
    scope="module", params=["devices", pytest.param("workers", marks=pytest.mark.exhaustive)]
)
def results(request):
    environment = {"PYTHONPATH": str(SCRIPT.parents[3]), "CUDA_VISIBLE_DEVICES": "-1"}
    command = ["env", *(f"{name}={value}" for name, value in environment.items())]
    chosen = [item.callspec.params for item in request.session.items if hasattr(item, "callspec")]
    kinds = {params["kind"] for params in chosen if params.get("kind") in KINDS}
    command += [sys.executable, str(SCRIPT), *sorted(kinds)]
    if request.param == "devices":
        pipe = subprocess.PIPE
        processes = [subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True)]
    else:
        processes = start_workers(command)
    answers = []
    for process in processes:
        output, errors = process.communicate(timeout=400)
        assert process.returncode == 0, errors[-4000:]
        answers.append(json.loads(output))
    results = answers[0]
    assert results["replicas"] == 2
    assert list(results["comparisons"]) == COMPARISONS
    # Each worker shows its own replicas' masks.
    results["dropout"] = [
        [mask for masks in draws for mask in masks]
        for draws in zip(*(answer["dropout"] for answer in answers), strict=True)
    ]
    return results


@pytest.mark.parametrize("name", COMPARISONS)
def test_one_device_is_two_devices(results, name):
    """The same update, though the two hold different numbers of tokens, or none at all."""
    comparison = results["comparisons"][name]
    assert comparison["steps"] == [comparison["expected_steps"]] * 2
    assert comparison["largest_update"] > 0.01
    assert comparison["relative_difference"] < 1e-5


@pytest.mark.parametrize("name", COMPARISONS)
@pytest.mark.representatives("guided")  # whose batches are in parts, too
@pytest.mark.parametrize("kind", KINDS)
def test_micro_batches_on_two_devices_are_one_batch_on_one(results, kind, name):
    comparison = results[kind][name]
    assert comparison["steps"] == [comparison["expected_steps"]] * 2
    assert comparison["largest_update"] > 0.01
    assert comparison["relative_difference"] < 1e-5
    one, two = comparison["metrics"]
    assert one == pytest.approx(two, rel=1e-5)


def test_adam_sees_the_gradient_of_both_devices(results):
    """It clips their sum, and skips where either's is not finite."""
    one, two = results["adam"]
    assert one["skipped"] == two["skipped"] == 1
    assert max(abs(value - 1) for value in one["values"]) > 0.05
    assert one["values"] == pytest.approx(two["values"], rel=1e-5)


@pytest.mark.parametrize("name", COMPARISONS)
def test_metrics_of_one_device_are_those_of_two(results, name):
    one, two = results["comparisons"][name]["metrics"]
    assert one == pytest.approx(two, rel=1e-5)


def test_evaluate_on_one_device_is_that_on_two(results):
    one, two = results["evaluated"]
    assert one == pytest.approx(two, rel=1e-4)


def test_dropout_differs_between_replicas_and_steps(results):
    masks = [np.array(mask) for step in results["dropout"] for mask in step]
    assert len(masks) == 4
    for number, mask in enumerate(masks):
        assert set(np.unique(mask)) == {0.0, 2.0}
        assert all((mask != earlier).any() for earlier in masks[:number])


def test_first_batch_may_be_uneven(results):
    """Keras' own trainer builds a model from its first batch, and fails where that is uneven."""
    result = results["uneven_first_batch"]
    assert result["first_batch"] % 2 == 1
    assert result["iterations"] == 8 * 3
    assert np.isfinite(result["smoothed"]).all()
    assert result["smoothed"][-1] < result["smoothed"][0] - 0.3
