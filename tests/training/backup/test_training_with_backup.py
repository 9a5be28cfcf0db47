"""Training that loses its machine goes on from the backup as if nothing had happened."""

import logging
import signal
import time
import types

import pytest

from tests.conftest import small_config
from tests.training.distributed.test_workers import start_workers, train_command, variables
from training.backup.object_store import ObjectStore
from training.callbacks.callbacks import SaveCheckpoints
from training.trainer import train

fsspec = pytest.importorskip("fsspec")

SETTINGS = {
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


@pytest.mark.slow
def test_a_lost_machine_changes_nothing(corpus, tmp_path, monkeypatch, url, caplog):
    """Each process has a new, empty folder, and is lost between two checkpoints."""

    def go_on(name, backup=url):
        config = small_config(**SETTINGS)
        return train(config, model_dir=tmp_path / name, backup=backup, **corpus.arguments)

    caplog.set_level(logging.INFO, "training")
    go_on("whole", backup=None)
    save = SaveCheckpoints._save
    for number in range(2):

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
        f"Restored step {step} from {url}" for step in (5, 10)
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
    train(config, model_dir=tmp_path / "model", backup=url, **corpus.arguments)
    assert "The backup is not up to date" in caplog.text
    train(config, model_dir=tmp_path / "new", backup=url, **corpus.arguments)
    assert_same_model(tmp_path / "model", tmp_path / "new")


@pytest.mark.slow
def test_a_backup_that_cannot_be_written_is_reported_first(corpus, tmp_path, monkeypatch, url):
    def refuse(*_):
        raise OSError("read-only")

    monkeypatch.setattr(ObjectStore, "write", refuse)
    with pytest.raises(OSError, match="read-only"):
        train(small_config(), model_dir=tmp_path / "model", backup=url, **corpus.arguments)
    assert not list((tmp_path / "model").glob("checkpoints/*"))


@pytest.mark.slow
def test_two_workers_that_lose_their_shared_folder(corpus, tmp_path):
    """The chief uploads; SIGTERM to the other worker, as before a machine is taken away."""
    backup = f"file://{tmp_path}/backup"
    changes = SETTINGS | {"optimization__steps": 100_000}
    command = [*train_command(corpus, tmp_path / "first", **changes), "--backup", backup]
    workers = start_workers(command)
    try:
        wait_for(tmp_path / "first" / "checkpoints" / "step-10.index", workers)
        workers[1].send_signal(signal.SIGTERM)
        answers = [worker.communicate(timeout=120) for worker in workers]
    finally:
        for worker in workers:
            worker.kill()
    assert [worker.returncode for worker in workers] == [143, 143], answers
    stopped = int(answers[0][0].split("saved at step ")[1].split(".")[0])
    steps = 5 * (stopped // 5 + 2)
    changes = SETTINGS | {"optimization__steps": steps}
    command = [*train_command(corpus, tmp_path / "second", **changes), "--backup", backup]
    workers = start_workers(command)
    answers = [worker.communicate(timeout=300) for worker in workers]
    assert [worker.returncode for worker in workers] == [0, 0], answers
    assert f"Resuming from step {stopped}" in answers[0][1]
    whole = start_workers(train_command(corpus, tmp_path / "whole", **changes))
    assert [worker.wait(timeout=300) for worker in whole] == [0, 0]
    assert_same_model(tmp_path / "whole", tmp_path / "second")


def wait_for(path, workers):
    deadline = time.monotonic() + 200
    while not path.exists():
        assert all(worker.poll() is None for worker in workers)
        assert time.monotonic() < deadline
        time.sleep(0.05)
