"""Training that loses its machine goes on from the backup as if nothing had happened."""

import logging
import subprocess
import sys
import types

import pytest

from tests.conftest import small_config
from tests.training.distributed.test_workers import EXAMPLES, train_command, variables
from training.backup.object_store import ObjectStore
from training.callbacks.callbacks import SaveCheckpoints
from training.trainer import train

fsspec = pytest.importorskip("fsspec")

pytestmark = pytest.mark.usefixtures("models_built_once")

SETTINGS = {
    "model__decoder_only": True,  # a backup does not depend on the kind of model
    "optimization__steps": 15,
    "optimization__checkpoint_every": 5,
    "optimization__average_decay": 0.9,
}


class Lost(BaseException):
    """In place of a machine that is lost: nothing in training catches it."""


def assert_same_model(model_dir, other):
    expected, found = variables(model_dir), variables(other)
    assert expected.keys() == found.keys()
    for name in expected:
        assert (expected[name] == found[name]).all(), name
    weights = [(folder / "model.weights.h5").read_bytes() for folder in (model_dir, other)]
    assert weights[0] == weights[1]


@pytest.mark.representatives("1")
@pytest.mark.slow
@pytest.mark.parametrize("losses", [1, 2])
def test_a_lost_machine_changes_nothing(corpus, tmp_path, monkeypatch, url, caplog, losses):
    """Each process has a new, empty folder, and is lost between two checkpoints."""

    def go_on(name, backup=url):
        config = small_config(**SETTINGS)
        return train(config, model_dir=tmp_path / name, backup=backup, **corpus.target_arguments)

    caplog.set_level(logging.INFO, "training")
    go_on("whole", backup=None)
    save = SaveCheckpoints._save
    for number in range(losses):

        def save_or_be_lost(callback, number=number):
            step = int(callback.model.optimizer.iterations.numpy())
            if step == 5 * (number + 2):
                raise Lost
            save(callback)

        with monkeypatch.context() as patch, pytest.raises(Lost):
            patch.setattr(SaveCheckpoints, "_save", save_or_be_lost)
            # The upload of the last checkpoint has ended by then.
            immediately = types.SimpleNamespace(Thread=Immediately)
            patch.setattr("training.backup.backup.threading", immediately)
            go_on(f"lost-{number}")
    assert go_on("found").step == 15
    assert_same_model(tmp_path / "whole", tmp_path / "found")
    assert [line for line in caplog.messages if line.startswith("Restored")] == [
        f"Restored step {5 * (number + 1)} from {url}" for number in range(losses)
    ]
    # And once more, from the finished run alone.
    assert go_on("again").step == 15
    assert_same_model(tmp_path / "whole", tmp_path / "again")
    whole, again = (tmp_path / name / "validation_scores.json" for name in ("whole", "again"))
    assert whole.read_text() == again.read_text()


class Immediately:
    """In place of a thread: runs its function at once."""

    def __init__(self, target, args, daemon):
        self.target, self.args = target, args

    def start(self):
        self.target(*self.args)

    def join(self):
        pass

    def is_alive(self):
        return False


@pytest.mark.exhaustive  # test_backup.py has the same faults without training
@pytest.mark.slow
def test_uploads_that_fail_do_not_stop_training(corpus, tmp_path, monkeypatch, url, caplog):
    upload, calls = ObjectStore.upload, []

    def fail_first(*arguments):
        calls.append(1)
        if len(calls) == 1:
            raise OSError("no network")
        upload(*arguments)

    monkeypatch.setattr(ObjectStore, "upload", fail_first)
    config = small_config(**SETTINGS | {"optimization__steps": 10})
    train(config, model_dir=tmp_path / "model", backup=url, **corpus.target_arguments)
    assert "The backup is not up to date" in caplog.text
    train(config, model_dir=tmp_path / "new", backup=url, **corpus.target_arguments)
    assert_same_model(tmp_path / "model", tmp_path / "new")


@pytest.mark.slow
def test_a_backup_that_cannot_be_written_is_reported_first(corpus, tmp_path, monkeypatch, url):
    def refuse(*_):
        raise OSError("read-only")

    monkeypatch.setattr(ObjectStore, "write", refuse)
    with pytest.raises(OSError, match="read-only"):
        train(
            small_config(**SETTINGS),
            model_dir=tmp_path / "model",
            backup=url,
            **corpus.target_arguments,
        )
    assert not list((tmp_path / "model").glob("checkpoints/*"))


@pytest.mark.exhaustive
@pytest.mark.slow
def test_the_drills_of_the_guide(corpus, tmp_path):
    """Two workers: one drained, one dead, and all lost with their folder."""
    settings = SETTINGS | {"optimization__steps": 45, "optimization__checkpoint_every": 15}
    del settings["model__decoder_only"]
    command = train_command(corpus, tmp_path, **settings)
    position = command.index("--model-dir")
    del command[position : position + 2]
    drills = [sys.executable, str(EXAMPLES / "drills.py"), str(tmp_path / "drills"), *command]
    done = subprocess.run(drills, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr[-2000:]
    results = [line for line in done.stdout.splitlines() if "ended with" in line]
    assert results == [
        "drain: ended with [143, 143], then [0, 0]: same weights",
        "lose_worker: ended with [2, -9], then [0, 0]: same weights",
        "lose_everything: ended with [-9, -9], then [0, 0]: same weights",
    ]
    lost = tmp_path / "drills" / "lose_everything" / "model"
    assert_same_model(tmp_path / "drills" / "whole" / "model", lost)


@pytest.mark.exhaustive
def test_the_drills_say_how_they_are_called(tmp_path):
    drills = [sys.executable, str(EXAMPLES / "drills.py")]
    for arguments in ([], [str(tmp_path)], [str(tmp_path), "tf-transformer", "train"]):
        done = subprocess.run([*drills, *arguments], capture_output=True, text=True)
        assert done.returncode == 2
        assert done.stderr == "usage: drills.py OUT COMMAND ... --deterministic\n"
