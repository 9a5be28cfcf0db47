"""Killed at random moments and started again, training ends bit for bit as if nothing happened."""

import random
import subprocess
import time

import numpy as np
import pytest

from tests.training.distributed.test_workers import start_workers, train_command, variables

pytestmark = pytest.mark.slow

SETTINGS = {
    "optimization__steps": 25,
    "optimization__checkpoint_every": 5,
    "optimization__average_decay": 0.9,
}
# How each is killed in turn: one process, or all of them at once.
KILLS = {
    "one device": ["all"],
    "one device, killed twice": ["all", "all"],
    "two devices": ["all"],
    "two workers": ["one"],
}


def start(kind, corpus, model_dir):
    command = train_command(corpus, model_dir, **SETTINGS)
    if kind == "one device":  # the smallest model, which starts sooner
        changes = SETTINGS | {"model__decoder_only": True}
        command = train_command(corpus, model_dir, corpus.target_options, **changes)
    if kind == "two devices":
        command += ["--devices", "2"]
    if kind == "two workers":
        return start_workers(command)
    return [subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)]


def finish(processes):
    for process in processes:
        _, errors = process.communicate(timeout=300)
        assert process.returncode == 0, errors[-2000:]


def kill_one(processes):
    """Kills the last process; another ends by itself, and says why."""
    *others, last = processes
    last.kill()
    last.communicate()
    for process in others:
        _, errors = process.communicate(timeout=120)
        assert process.returncode == 2
        assert errors.splitlines()[-1].startswith(
            "tf-transformer: error: another worker has ended or cannot be reached; start all "
            "workers again with the same command to resume from the newest checkpoint"
        )


@pytest.mark.representatives("one device")
@pytest.mark.parametrize("kind", KILLS)
def test_kills_change_nothing(corpus, tmp_path, kind):
    """Killed once training has begun; `python -m benchmarks.kills` does it a thousand times."""
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    finish(start(kind, corpus, whole))
    draw = random.Random(kind)
    for number, killed_processes in enumerate(KILLS[kind], 1):
        processes = start(kind, corpus, killed)
        deadline = time.monotonic() + 200
        while not (killed / "checkpoints" / f"step-{5 * number}.index").exists():
            assert all(process.poll() is None for process in processes)
            assert time.monotonic() < deadline
            time.sleep(0.01)
        time.sleep(draw.uniform(0, 0.3))
        if killed_processes == "one":
            kill_one(processes)
        else:
            for process in processes:
                process.kill()
                process.communicate()
    finish(start(kind, corpus, killed))
    expected, found = variables(whole), variables(killed)
    assert expected.keys() == found.keys()
    for name, value in expected.items():
        np.testing.assert_array_equal(found[name], value, err_msg=name)
    weights = [(path / "model.weights.h5").read_bytes() for path in (whole, killed)]
    assert weights[0] == weights[1]
