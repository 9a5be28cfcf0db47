"""Tests of what a GPU computes: skipped where there is none, see `make test-gpu`.

Each test runs tests/gpu/compute.py in processes of their own, on the CPU and on a GPU. With the
environment variable REHEARSE_GPU=1, a CPU stands in for the GPU and does what the program switches
by device: that shows that the tests run, and that the switches change no result.
"""

import os
import pathlib
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

ROOT = pathlib.Path(__file__).parents[2]
REHEARSES = os.environ.get("REHEARSE_GPU") == "1"
# The processes share the GPU with this one, which must not take all of its memory.
os.environ.setdefault("TF_FORCE_GPU_ALLOW_GROWTH", "true")


def num_gpus() -> int:
    import tensorflow as tf

    return 2 if REHEARSES else len(tf.config.list_physical_devices("GPU"))


@pytest.fixture(scope="session", autouse=True)
def _needs_a_gpu() -> None:
    if not num_gpus():
        pytest.skip(
            "TensorFlow sees no GPU; `make test-gpu` runs these tests on a machine with one"
        )


def run(device: str, *words: str, status: int = 0) -> subprocess.CompletedProcess[str]:
    """Runs Python with these words, on "cpu" or "gpu"."""
    environment = dict(os.environ)
    if device == "cpu" or REHEARSES:
        environment["CUDA_VISIBLE_DEVICES"] = "-1"
    environment["REHEARSE_GPU"] = str(int(REHEARSES and device == "gpu"))
    done = subprocess.run(
        [sys.executable, *words],
        cwd=ROOT,
        env=environment,
        input="",
        capture_output=True,
        text=True,
        timeout=900,
    )
    assert done.returncode == status, done.stdout + done.stderr[-4000:]
    return done


@pytest.fixture
def compute(tmp_path) -> Callable[..., dict[str, Any]]:
    """Runs a function of compute.py on "cpu" or "gpu", and returns its arrays by name."""

    def compute(device: str, name: str, *arguments: object) -> dict[str, Any]:
        path = tmp_path / f"{device}.npz"
        run(device, "-m", "tests.gpu.compute", str(path), name, *map(str, arguments))
        with np.load(path) as file:
            found = {key: file[key] for key in file.files}
        assert str(found.pop("device")).lower() == ("cpu" if REHEARSES else device)
        return found

    return compute
