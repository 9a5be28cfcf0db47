"""Noise in the whole command: resumed = uninterrupted, one device = two, no prepared folder."""

import os
import subprocess

import numpy as np
import pytest

from tests.conftest import SMALL_SETTINGS
from tests.training.distributed.test_workers import train_command, variables
from tf_transformer.__main__ import main
from tf_transformer.storage.json_files import read_json
from training.settings import make_config, read_settings

NOISE = "{upper: 0.2, title: 0.2, no_end: 0.3, typos: 0.02, copies: 0.2}"
# Of two epochs, without dropout.
SETTINGS = {"model__dropout_rate": 0.0, "data__batch_tokens": 2048, "data__noise": NOISE}


def run(corpus, model_dir, steps, *options, **changes):
    command = train_command(
        corpus, model_dir, **SETTINGS | {"optimization__steps": steps} | changes
    )
    environment = os.environ | {"PYTHONWARNINGS": "ignore"}
    subprocess.run([*command, *options], check=True, capture_output=True, env=environment)
    return variables(model_dir)


@pytest.fixture(scope="module")
def uninterrupted(corpus, tmp_path_factory):
    return run(corpus, tmp_path_factory.mktemp("uninterrupted") / "model", 14)


@pytest.mark.exhaustive
@pytest.mark.slow
def test_a_resumed_run_gets_the_same_noise(corpus, uninterrupted, tmp_path):
    """Bit for bit."""
    assert run(corpus, tmp_path / "model", 5).keys() == uninterrupted.keys()
    resumed = run(corpus, tmp_path / "model", 14)
    for name, value in uninterrupted.items():
        np.testing.assert_array_equal(resumed[name], value, err_msg=name)
    settings = read_json(tmp_path / "model" / "training.json")["settings"]
    assert settings["data"]["noise"]["typos"] == 0.02


def distance(values, others):
    """Between the weights of two checkpoints."""
    names = [name for name, value in values.items() if name.startswith("weights") and value.ndim]
    assert len(names) > 20
    return np.sqrt(sum(np.square(values[name] - others[name]).sum() for name in names))


@pytest.mark.exhaustive
@pytest.mark.slow
def test_two_devices_train_like_one(corpus, uninterrupted, tmp_path):
    """Up to rounding, which is small compared with what the noise does to the weights."""
    two = run(corpus, tmp_path / "two", 14, "--devices", "2")
    clean = run(corpus, tmp_path / "clean", 14, data__noise="{}")
    assert distance(two, uninterrupted) < 0.01 * distance(clean, uninterrupted)


@pytest.mark.slow
def test_a_prepared_folder_is_refused(corpus, tmp_path, capsys):
    command = ["prepare", *corpus.options[:4], "--output", str(tmp_path / "prepared")]
    assert main([*command, "--set", "vocabulary.size=400"]) == 0
    capsys.readouterr()
    settings = [f"{name}={value}" for name, value in SMALL_SETTINGS.items()]
    command = ["train", "--prepared", str(tmp_path / "prepared"), *corpus.options[4:]]
    command += ["--model-dir", str(tmp_path / "model"), "--set", *settings, "data.noise.upper=0.1"]
    assert main(command) == 2
    message = capsys.readouterr().err
    assert message.count("\n") == 1
    assert "'data.noise' changes text before it is tokenized" in message
    assert "Received: {'upper': 0.1}" in message
    assert not (tmp_path / "model").exists()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"data.noise.upper": 1.5}, r"'data.noise.upper': input should be less than or equal to 1"),
        ({"data.noise.typos": -0.1}, r"'data.noise.typos': input should be greater than or equal"),
        ({"data.noise.typos": float("nan")}, r"'data.noise.typos': input should be"),
        ({"data.noise.upper": 0.6, "data.noise.title": 0.6}, r"together at most 1.*0.6 and 0.6"),
        ({"data.noise.uper": 0.6}, r"unknown setting 'data.noise.uper'; did you mean 'data.noise"),
        ({"data.noise": 0.1}, r"'data.noise': "),
        ({"data.noise.upper": 0.1, "model.decoder_only": True}, r"which a language model does not"),
    ],
)
def test_wrong_settings(settings, message):
    with pytest.raises(ValueError, match=message):
        make_config(read_settings(None, settings))


def test_settings_without_noise_are_those_of_earlier_runs():
    """A directory that was written before there was noise resumes."""
    assert make_config({"data": {"max_length": 9}}).data.noise == make_config({}).data.noise
    assert not make_config({}).data.noise.is_on
    assert make_config({"data": {"noise": {"typos": 0.1}}}).data.noise.is_on
