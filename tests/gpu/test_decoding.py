"""Translations and exports on a GPU against those of the CPU."""

import collections
import pathlib

import numpy as np
import pytest
from tensorflow.core.protobuf.saved_model_pb2 import SavedModel

from tests.gpu.conftest import run
from tests.gpu_kernels import devices_named, nodes_of

pytestmark = pytest.mark.slow


@pytest.fixture
def sentences(corpus):
    return corpus.directory / "test.en"


@pytest.mark.parametrize("xla", ["off", "on"])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_translations_are_those_of_the_cpu(compute, talkative, sentences, dtype, xla):
    """Scores up to rounding; a few texts may differ where two hypotheses score almost alike."""
    cpu, gpu = (
        compute(device, "translate", talkative, sentences, dtype, xla) for device in ("cpu", "gpu")
    )
    same = cpu["texts"][:, 0] == gpu["texts"][:, 0]
    assert same.mean() >= (0.98 if dtype == "float32" else 0.8)
    assert len(set(cpu["texts"][:, 0])) > 10
    tolerance = 1e-3 if dtype == "float32" else 0.1
    np.testing.assert_allclose(
        gpu["scores"][same][:, 0], cpu["scores"][same][:, 0], rtol=tolerance, atol=tolerance
    )


def test_an_export_is_made_on_the_cpu_and_answers_on_both(compute, talkative, sentences, tmp_path):
    command = ("-m", "tf_transformer", "export", "--model-dir", str(talkative))
    for device, options in (("cpu", ()), ("gpu", ()), ("gpu", ("--device", "gpu"))):
        done = run(device, *command, "--output", str(tmp_path / "served"), *options)
        assert "verified" in done.stdout
    first, second, third = (tmp_path / "served" / number for number in "123")
    assert operations_of(first) == operations_of(second)
    cpu = compute("cpu", "answers", first, sentences)
    for version in (first, third):
        gpu = compute("gpu", "answers", version, sentences)
        assert cpu.keys() == gpu.keys()
        same = cpu["serving_default_translation"] == gpu["serving_default_translation"]
        assert same.mean() >= 0.9
        for name in ("serving_default_score", "nbest_scores"):
            rows = same if cpu[name].ndim == 1 else (cpu[name] > -1e8) & same[:, np.newaxis]
            np.testing.assert_allclose(gpu[name][rows], cpu[name][rows], atol=2e-3)


def operations_of(version: pathlib.Path) -> collections.Counter[str]:
    """How often each operation occurs in a SavedModel, none of which names a device."""
    saved_model = SavedModel.FromString((version / "saved_model.pb").read_bytes())
    graph = saved_model.meta_graphs[0].graph_def
    assert devices_named(graph) == set()
    return collections.Counter(node.op for node in nodes_of(graph))


def test_int8_is_computed_by_the_cpu(talkative, sentences, tmp_path):
    command = ("-m", "tf_transformer", "translate", "--model-dir", str(talkative))
    options = ("--input", str(sentences), "--dtype", "int8")
    for device in ("cpu", "gpu"):
        run(device, *command, *options, "--output", str(tmp_path / device))
    assert (tmp_path / "gpu").read_bytes() == (tmp_path / "cpu").read_bytes()


def test_int8_in_a_program_says_what_to_do(talkative):
    program = (
        "import os, tf_transformer.backend\n"
        "if os.environ['REHEARSE_GPU'] == '1':\n"
        "    tf_transformer.backend.has_gpu = lambda: True\n"
        "from tf_transformer import Translator\n"
        f"Translator.load({str(talkative)!r}, dtype='int8')\n"
    )
    last = run("gpu", "-c", program, status=1).stderr.splitlines()[-1]
    assert "int8 needs the CPU" in last and "CUDA_VISIBLE_DEVICES=-1" in last
