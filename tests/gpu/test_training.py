"""Training on a GPU against training on the CPU, and against itself."""

import shutil

import numpy as np
import pytest

from tests.gpu.conftest import num_gpus, run

pytestmark = pytest.mark.slow

# Largest difference, relative to the largest gradient: numbers have 23 bits after the first, in
# TF32 and float16 10, in bfloat16 7.
TOLERANCES = {"float32": 1e-4, "tf32": 2e-2, "mixed_bfloat16": 0.1, "mixed_float16": 5e-2}


@pytest.mark.parametrize("micro_batches", [1, 2])
@pytest.mark.parametrize("dtype", TOLERANCES)
def test_steps_are_those_of_the_cpu(compute, dtype, micro_batches):
    """With dropout, whose random bits are the same on both."""
    precision = ("float32", "tf32") if dtype == "tf32" else (dtype, "exact")
    cpu, gpu = (compute(device, "steps", *precision, micro_batches) for device in ("cpu", "gpu"))
    assert cpu.keys() == gpu.keys() and len(cpu) > 20
    assert cpu["skipped"] == gpu["skipped"] == 0
    gradients = [values for name, values in cpu.items() if name.startswith("gradient")]
    largest = max(np.abs(values).max() for values in gradients)
    assert largest > 1e-3
    for name, values in cpu.items():
        scale = largest if name.startswith("gradient") else np.abs(values).max()
        tolerance = TOLERANCES[dtype] * scale
        np.testing.assert_allclose(gpu[name], values, atol=tolerance, err_msg=name)


def test_packed_is_padded(compute):
    """Outputs and gradients."""
    found = compute("gpu", "packed")
    packed = {name: value for name, value in found.items() if name.startswith("packed")}
    assert len(packed) > 10
    for name, value in packed.items():
        expected = found[name.replace("packed", "padded")]
        tolerance = 1e-4 * np.abs(expected).max()
        np.testing.assert_allclose(value, expected, atol=tolerance, err_msg=name)


def test_a_resumed_run_is_an_uninterrupted_one(compute, corpus, tmp_path):
    """Bit by bit, with deterministic operations, of which TensorFlow lacks some for GPUs."""
    found = compute("gpu", "digests", tmp_path / "models", corpus.directory)
    assert found["whole"] == found["resumed"] != found["other"]


def test_two_gpus_are_one(compute, corpus, tmp_path):
    if num_gpus() < 2:
        pytest.skip("there is one GPU alone")
    one, two = (
        compute("gpu", "logits", tmp_path / "models", corpus.directory, number)["logits"]
        for number in (1, 2)
    )
    assert np.abs(one).max() > 0.1
    np.testing.assert_allclose(two, one, atol=1e-3)


@pytest.mark.parametrize("dtype", ["float32", "mixed_bfloat16", "mixed_float16"])
def test_a_whole_run(corpus, tmp_path, dtype):
    """Batches from files, checkpoints, validation with translations, and monitoring."""
    settings = [
        *("preset=tiny", "model.num_encoder_layers=1", "model.num_decoder_layers=1"),
        *("vocabulary.size=400", "data.batch_tokens=512", f"optimization.dtype={dtype}"),
        *("validation.sentences=8", "validation.histograms=true"),
    ]
    run(
        "gpu",
        *("-m", "tf_transformer", "train", "--model-dir", str(tmp_path / "model"), *corpus.options),
        *("--steps", "20", "--checkpoint-every", "10", "--set", *settings),
        *("--profile", "3:4"),
    )
    assert (tmp_path / "model" / "model.weights.h5").exists()


def test_a_command_takes_the_memory_that_it_needs(monkeypatch):
    """By default, TensorFlow would take nearly all."""
    if shutil.which("nvidia-smi") is None:
        pytest.skip("nvidia-smi is not installed")
    monkeypatch.delenv("TF_FORCE_GPU_ALLOW_GROWTH")
    program = (
        "import subprocess\n"
        "from tf_transformer.command_line.quiet import import_tensorflow\n"
        "query = ['nvidia-smi', '--query-gpu=memory.used', '--format=csv,noheader,nounits']\n"
        "def used(): return int(subprocess.check_output(query).split()[0])\n"
        "before = used()\n"
        "import_tensorflow()\n"
        "import tensorflow as tf\n"
        "product = tf.ones((8, 8)) @ tf.ones((8, 8))\n"
        "print(used() - before)\n"
    )
    assert 0 < int(run("gpu", "-c", program).stdout) < 4000  # MiB
