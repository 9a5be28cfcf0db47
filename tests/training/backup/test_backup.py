"""Saving and restoring: what is uploaded when, and what an interrupted save leaves."""

import json
import shutil
import threading

import pytest

from tests.conftest import small_config
from tests.training.backup.conftest import contents, fsspec, kept, start, write_checkpoint
from training.backup.backup import Backup
from training.backup.object_store import ObjectStore
from training.checkpointing.best_checkpoints import keep_best
from training.checkpointing.run_metadata import run_fingerprint


class Killed(BaseException):
    """In place of SIGKILL: nothing in the code catches it for good."""


def save(url, model_dir):
    """A process that trains: claims the backup and uploads what is there."""
    backup = Backup(url, model_dir)
    backup.claim()
    with backup.kept():
        pass


def restored(url, folder, run=None):
    """What another machine gets."""
    step = Backup(url, folder).restore(run)
    return step, contents(folder) if folder.exists() else {}


def objects(url):
    files, root = fsspec.url_to_fs(url)
    return {info["name"].rpartition("/")[2] for info in files.ls(f"{root}/files", detail=True)}


def test_a_saved_run_comes_back(url, model_dir, tmp_path, run):
    save(url, model_dir)
    assert restored(url, tmp_path / "new", run) == (10, kept(model_dir))


def test_nothing_is_saved_before_the_first_checkpoint(url, tmp_path, run):
    model_dir = tmp_path / "model"
    start(model_dir, run)
    save(url, model_dir)
    assert restored(url, tmp_path / "new", run) == (None, {})


def test_no_backup_yet(url, tmp_path, run):
    assert restored(url, tmp_path / "new", run) == (None, {})


def test_only_changes_are_uploaded_and_old_files_removed(url, model_dir, tmp_path, monkeypatch):
    uploaded = []
    upload = ObjectStore.upload

    def count(self, path, name):
        uploaded.append(path.name)
        upload(self, path, name)

    monkeypatch.setattr(ObjectStore, "upload", count)
    save(url, model_dir)
    assert len(uploaded) == len(kept(model_dir))
    uploaded.clear()
    save(url, model_dir)
    assert uploaded == []
    write_checkpoint(model_dir, 20)
    keep_best(model_dir, [20], 1)  # links to files that are uploaded anyway
    for path in (model_dir / "checkpoints").glob("step-10.*"):
        path.unlink()
    save(url, model_dir)
    assert sorted(uploaded) == ["model.weights.h5", "step-20.data-00000-of-00001", "step-20.index"]
    assert restored(url, tmp_path / "new") == (20, kept(model_dir))
    assert len(objects(url)) == len(set(kept(model_dir).values()))


@pytest.mark.parametrize("number", range(12))
@pytest.mark.parametrize("after", [False, True])
def test_a_kill_leaves_the_former_or_the_new_state(
    url, model_dir, tmp_path, run, monkeypatch, number, after
):
    """Killed before or after each request that changes the store, and then repeated."""
    save(url, model_dir)
    former = kept(model_dir)
    write_checkpoint(model_dir, 20)
    for path in (model_dir / "checkpoints").glob("step-10.*"):
        path.unlink()
    calls = []

    def killing(method):
        def wrapper(*arguments):
            calls.append(method.__name__)
            if len(calls) == number + 1 and not after:
                raise Killed
            method(*arguments)
            if len(calls) == number + 1:
                raise Killed

        return wrapper

    backup = Backup(url, model_dir)
    backup.claim()
    with monkeypatch.context() as patch:
        for name in ("upload", "write", "remove"):
            patch.setattr(ObjectStore, name, killing(getattr(ObjectStore, name)))
        if number < 7:  # three uploads, the manifest, three removals
            with pytest.raises(Killed), backup.kept():
                pass
        else:
            with backup.kept():
                pass
            assert calls == [*["upload"] * 3, "write", *["remove"] * 3]
    is_written = number + after > 3
    expected = (20, kept(model_dir)) if is_written else (10, former)
    assert restored(url, tmp_path / "between", run) == expected
    save(url, model_dir)
    assert restored(url, tmp_path / "new", run) == (20, kept(model_dir))
    assert len(objects(url)) == len(set(kept(model_dir).values()))


def test_a_truncated_object_is_uploaded_again(url, model_dir, tmp_path, run):
    """As a copy to a file system leaves it that was killed; object stores have none."""
    save(url, model_dir)
    files, root = fsspec.url_to_fs(url)
    for name in objects(url):
        files.pipe_file(f"{root}/files/{name}", b"?")
    save(url, model_dir)
    assert restored(url, tmp_path / "new", run) == (10, kept(model_dir))


@pytest.mark.parametrize("number", range(8))
def test_a_killed_restore_is_repeated(url, model_dir, tmp_path, run, monkeypatch, number):
    """Killed at each move of a file, in a new folder and in one with an older state."""
    save(url, model_dir)
    new, older = tmp_path / "new", tmp_path / "older"
    shutil.copytree(model_dir, older)
    write_checkpoint(model_dir, 20)
    save(url, model_dir)
    import training.backup.restoring as module

    for folder in (new, older):
        moved = []

        def kill(source, target, moved=moved, replace=module.os.replace):
            moved.append(target)
            if len(moved) == number + 1:
                raise Killed
            replace(source, target)

        with monkeypatch.context() as patch, pytest.raises(Killed):
            patch.setattr(module.os, "replace", kill)
            Backup(url, folder).restore(run)
        assert not (folder / "config.json").exists()
        assert Backup(url, folder).restore(run) == 20
        assert kept(folder) == kept(model_dir)


def test_the_newer_state_wins(url, model_dir, tmp_path, run):
    save(url, model_dir)
    local = tmp_path / "local"
    shutil.copytree(model_dir, local)
    write_checkpoint(local, 15)
    before = contents(local)
    assert restored(url, local, run) == (None, before)
    write_checkpoint(model_dir, 20)
    save(url, model_dir)
    step, after = restored(url, local, run)
    assert step == 20
    assert after == before | contents(model_dir)


@pytest.mark.parametrize("local", ["new", "newer"])
def test_another_run_is_refused(url, model_dir, tmp_path, run, local):
    """Even if nothing would be downloaded: its objects would be removed later."""
    save(url, model_dir)
    other = run_fingerprint(small_config(model__dropout_rate=0.3), "a corpus", None)
    folder = tmp_path / "other"
    if local == "newer":
        start(folder, other)
        write_checkpoint(folder, 50)
    with pytest.raises(ValueError, match=r"memory://.*dropout_rate=0.1; received 0.3.*--backup"):
        Backup(url, folder).restore(other)
    assert restored(url, tmp_path / "new", run) == (10, kept(model_dir))


def test_another_run_is_not_overwritten(url, model_dir, tmp_path, run):
    save(url, model_dir)
    folder = tmp_path / "other"
    start(folder, run_fingerprint(small_config(), "another corpus", None))
    write_checkpoint(folder, 5)
    before = contents(folder)
    with pytest.raises(ValueError, match="other was trained on another corpus"):
        Backup(url, folder).restore(run)
    assert contents(folder) == before


def test_settings_that_may_change(url, model_dir, tmp_path):
    save(url, model_dir)
    longer = run_fingerprint(small_config(optimization__steps=1000), "a corpus", None)
    assert restored(url, tmp_path / "new", longer)[0] == 10


def test_there_is_one_writer(url, model_dir, tmp_path, run):
    """The last one that has claimed the backup; the other stops before it changes anything."""
    other = tmp_path / "other"
    shutil.copytree(model_dir, other)
    first = Backup(url, model_dir)
    first.claim()
    save(url, other)
    write_checkpoint(model_dir, 20)
    first.start_saving()
    with pytest.raises(ValueError, match="another process writes this backup now"):
        first.wait()
    with pytest.raises(ValueError, match="another process writes this backup now"), first.kept():
        pass
    assert restored(url, tmp_path / "new", run) == (10, kept(other))


class Blocking:
    """Lets an upload wait, and training go on meanwhile."""

    def __init__(self, monkeypatch):
        self.entered, self.released = threading.Event(), threading.Event()
        upload = ObjectStore.upload

        def wrapper(store, path, name):
            self.entered.set()
            assert self.released.wait(60)
            upload(store, path, name)

        monkeypatch.setattr(ObjectStore, "upload", wrapper)


def test_training_goes_on_during_an_upload(url, model_dir, tmp_path, run, monkeypatch, caplog):
    """The uploaded state is that of its checkpoint, whatever training replaces and removes."""
    expected = kept(model_dir)
    blocking = Blocking(monkeypatch)
    backup = Backup(url, model_dir)
    backup.claim()
    backup.start_saving()
    assert blocking.entered.wait(60)
    write_checkpoint(model_dir, 20)
    for path in (model_dir / "checkpoints").glob("step-10.*"):
        path.unlink()
    with open(model_dir / "logs/training/events.out.tfevents.1.host.1.0.v2", "a") as log:
        log.write("more reports\n")
    backup.start_saving()  # too early
    assert "still running" in caplog.text
    blocking.released.set()
    backup.wait()
    assert restored(url, tmp_path / "first", run) == (10, expected)
    with backup.kept():
        pass
    assert restored(url, tmp_path / "second", run) == (20, kept(model_dir))
    assert not list(model_dir.glob(".*"))


def test_a_failed_upload_is_made_up_for(url, model_dir, tmp_path, run, monkeypatch, caplog):
    backup = Backup(url, model_dir)
    backup.claim()
    with monkeypatch.context() as patch:
        patch.setattr(ObjectStore, "upload", failing)
        backup.start_saving()
        backup.wait()
    assert caplog.text.count("The backup is not up to date; trying again later. no network") == 1
    assert restored(url, tmp_path / "empty", run) == (None, {})
    backup.start_saving()
    backup.wait()
    assert restored(url, tmp_path / "new", run) == (10, kept(model_dir))


def failing(*_):
    raise OSError("no network")


def test_the_last_upload_must_not_fail(url, model_dir, monkeypatch):
    backup = Backup(url, model_dir)
    backup.claim()
    monkeypatch.setattr(ObjectStore, "upload", failing)
    with pytest.raises(OSError, match="no network"), backup.kept():
        pass


def test_an_error_of_training_completes_the_running_upload(url, model_dir, tmp_path, monkeypatch):
    backup = Backup(url, model_dir)
    backup.claim()
    expected = kept(model_dir)
    with pytest.raises(ConnectionError), backup.kept():
        backup.start_saving()
        write_checkpoint(model_dir, 20)
        raise ConnectionError
    assert restored(url, tmp_path / "new") == (10, expected)


def test_ctrl_c_waits_for_nothing(url, model_dir, monkeypatch):
    blocking = Blocking(monkeypatch)
    backup = Backup(url, model_dir)
    backup.claim()
    with pytest.raises(KeyboardInterrupt), backup.kept():
        backup.start_saving()
        raise KeyboardInterrupt
    blocking.released.set()
    backup.wait()


def test_without_hard_links(url, model_dir, tmp_path, run, monkeypatch):
    def refuse(*_):
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr("os.link", refuse)
    save(url, model_dir)
    assert restored(url, tmp_path / "new", run) == (10, kept(model_dir))


def test_what_a_kill_leaves_is_removed(url, model_dir, tmp_path, run):
    """By the next process on the machine, whatever its number: that of containers is the same."""
    for folder in (".backup-snapshot", ".backup-download"):
        (model_dir / folder / "checkpoints").mkdir(parents=True)
        (model_dir / folder / "checkpoints" / "step-5.index").write_text("old")
    Backup(url, model_dir).claim()
    assert not (model_dir / ".backup-snapshot").exists()
    shutil.rmtree(model_dir / ".backup-download")
    save(url, model_dir)
    folder = tmp_path / "new"
    shutil.copytree(model_dir, folder / ".backup-download")
    assert restored(url, folder, run) == (10, kept(model_dir))


def test_other_objects_are_left(url, model_dir):
    """A URL may name a folder with other things in it."""
    files, root = fsspec.url_to_fs(url)
    files.pipe_file(f"{root}/files/letter.txt", b"dear")
    files.pipe_file(f"{root}/letter.txt", b"dear")
    save(url, model_dir)
    assert files.cat_file(f"{root}/files/letter.txt") == files.cat_file(f"{root}/letter.txt")


def test_the_manifest_is_readable(url, model_dir):
    save(url, model_dir)
    files, root = fsspec.url_to_fs(url)
    manifest = json.loads(files.cat_file(f"{root}/manifest.json"))
    assert manifest["files"]["target.spm"]["size"] == len("pieces")
