"""A backup is checked before it is used: names, sizes, digests, URLs."""

import hashlib
import json
import os
import shutil

import pytest

from tests.training.backup.conftest import contents, fsspec, kept
from tf_transformer.__main__ import main
from training.backup.backup import Backup
from training.backup.manifest import belongs_to_run
from training.backup.object_store import ObjectStore, check_backup_url

DIGEST = hashlib.sha256(b"").hexdigest()


@pytest.fixture
def saved(url, model_dir):
    backup = Backup(url, model_dir)
    backup.claim()
    with backup.kept():
        pass
    return url


def change(url, edit):
    """Applies a function to the manifest, which may return another content."""
    files, root = fsspec.url_to_fs(url)
    manifest = json.loads(files.cat_file(f"{root}/manifest.json"))
    changed = edit(manifest)
    content = changed if isinstance(changed, bytes) else json.dumps(changed or manifest).encode()
    files.pipe_file(f"{root}/manifest.json", content)


def add(name, size=0, digest=DIGEST):
    return lambda manifest: manifest["files"].update({name: {"size": size, "sha256": digest}})


def alter(name, **values):
    return lambda manifest: manifest["files"][name].update(values)


FAULTS = {
    "no JSON": (lambda manifest: b"{", "manifest.json: not JSON"),
    "too large": (lambda manifest: b" " * (2**22 + 1), "expected at most 4,194,304 bytes"),
    "another version": (lambda manifest: manifest | {"version": 2}, "expected version 1, got 2"),
    "no writer": (lambda manifest: manifest | {"writer": 7}, "got writer 7"),
    "no files": (lambda manifest: manifest | {"files": []}, "expected at most 10,000 files"),
    "many files": (
        lambda manifest: manifest | {"files": dict.fromkeys(map(str, range(10_001)))},
        "expected at most 10,000 files",
    ),
    "outside": (add("../evil"), "'../evil' is no file of a training run"),
    "outside of the logs": (add("logs/../../evil"), "evil' is no file"),
    "absolute": (add("/etc/passwd"), "'/etc/passwd' is no file"),
    "hidden": (add("logs/.bashrc"), "bashrc' is no file"),
    "a program": (add("checkpoints/run.sh"), "run.sh' is no file"),
    "a line feed": (add("config.json\n"), "is no file"),
    "a negative size": (alter("target.spm", size=-1), "target.spm: expected a size, got -1"),
    "a size that is none": (alter("target.spm", size=True), "expected a size, got True"),
    "a digest that is a path": (alter("target.spm", sha256="../x"), "expected a SHA-256 digest"),
    "an entry that is none": (
        lambda manifest: manifest["files"].update({"target.spm": []}),
        "target.spm: expected a size, got None",
    ),
    "no configuration": (
        lambda manifest: manifest["files"].pop("config.json") and manifest,
        "expected a checkpoint and training.json, model.weights.h5, config.json",
    ),
    "no checkpoint": (
        lambda manifest: manifest["files"].pop("checkpoints/step-10.index") and manifest,
        "expected a checkpoint and",
    ),
    "another size": (alter("target.spm", size=5), "expected 5 bytes, got more"),
    "a larger size": (alter("target.spm", size=7), "expected 7 bytes, got 6"),
    "a missing object": (alter("target.spm", sha256="0" * 64), f"files/{'0' * 64}: missing"),
    "a large record": (alter("training.json", size=2**30), "training.json: expected at most"),
    "more than the disk": (alter("target.spm", size=2**60), "No space left on device"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_tampered_manifest_is_refused(saved, tmp_path, run, fault):
    edit, message = FAULTS[fault]
    change(saved, edit)
    with pytest.raises((ValueError, OSError)) as raised:
        Backup(saved, tmp_path / "new").restore(run)
    assert message in str(raised.value)
    assert contents(tmp_path / "new") == {}


def test_nothing_is_written_outside(saved, tmp_path, run):
    """Not even if the objects are there."""
    files, root = fsspec.url_to_fs(saved)
    files.pipe_file(f"{root}/files/{DIGEST}", b"")
    change(saved, add("../evil"))
    before = contents(tmp_path)
    with pytest.raises(ValueError, match="is no file of a training run"):
        Backup(saved, tmp_path / "new").restore(run)
    assert contents(tmp_path) == before


def test_a_changed_object_is_refused(saved, model_dir, tmp_path, run):
    """Of the same size, so that only the digest shows it. The folder is as before."""
    files, root = fsspec.url_to_fs(saved)
    name = hashlib.sha256(b"pieces").hexdigest()
    files.pipe_file(f"{root}/files/{name}", b"Pieces")
    with pytest.raises(ValueError, match=rf"files/{name}: damaged \(target.spm\)"):
        Backup(saved, tmp_path / "new").restore(run)
    assert contents(tmp_path / "new") == {}
    older = tmp_path / "older"
    shutil.copytree(model_dir, older)
    for path in (older / "checkpoints").iterdir():
        path.rename(path.with_name(path.name.replace("10", "9")))
    before = contents(older)
    with pytest.raises(ValueError, match="damaged"):
        Backup(saved, older).restore(run)
    assert contents(older) == before


def test_a_large_object_is_not_read_whole(url, tmp_path):
    """An object that grows after its size was checked."""
    files, root = fsspec.url_to_fs(url)
    files.pipe_file(f"{root}/large", b"x" * 2**24)
    with pytest.raises(ValueError, match=r"large: expected 10 bytes, got more"):
        ObjectStore(url).download("large", tmp_path / "copy", 10)
    assert (tmp_path / "copy").stat().st_size == 0


def test_links_are_not_written_through(saved, model_dir, tmp_path, run):
    folder, others = tmp_path / "linked", tmp_path / "others"
    folder.mkdir()
    others.mkdir()
    (folder / "checkpoints").symlink_to(others)
    with pytest.raises(ValueError, match="symbolic link"):
        Backup(saved, folder).restore(run)
    assert os.listdir(others) == []


def test_links_are_not_uploaded(url, model_dir, tmp_path):
    (tmp_path / "secret").mkdir()
    (model_dir / "target.spm").unlink()
    os.mkfifo(model_dir / "target.spm")
    backup = Backup(url, model_dir)
    with pytest.raises(ValueError, match=r"target.spm: expected a regular file, got a pipe"):
        backup.start_saving()


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("model.weights.h5", True),
        ("checkpoints/step-0.index", True),
        ("best_checkpoints/step-7.data-00000-of-00001", True),
        ("checkpoints/step-7.between", True),
        ("logs/training/plugins/profile/2026_11_25/host.xplane.pb", True),
        ("checkpoints/step-07.index", False),
        ("checkpoints/checkpoint", False),
        ("initial/model.weights.h5", False),
        ("logs", False),
        ("logs/a//b", False),
        ("logs/ä", False),
        ("", False),
    ],
)
def test_names(name, expected):
    assert belongs_to_run(name) is expected


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("model", "--backup model: expected a URL such as gs://bucket/run"),
        ("gs://", "expected a URL"),
        ("simplecache::s3://bucket/run", "expected a URL"),
        ("nothing://bucket/run", "nothing://bucket/run: Protocol not known"),
    ],
)
def test_urls(url, message):
    with pytest.raises(ValueError) as raised:
        check_backup_url(url)
    assert message in str(raised.value)


def test_an_unknown_error_of_a_service_is_explained(url, monkeypatch):
    """Every package has exceptions of its own, which the command line does not know."""
    store = ObjectStore(url)

    def fail(*_, **__):
        raise RuntimeError("credentials\nhave expired")

    monkeypatch.setattr("fsspec.implementations.memory.MemoryFileSystem.open", fail)
    with pytest.raises(OSError, match=r"run/manifest.json: credentials have expired"):
        store.read("manifest.json", 100)


def test_the_command_restores(saved, model_dir, tmp_path, capsys):
    folder = str(tmp_path / "new")
    assert main(["restore", "--backup", saved, "--model-dir", folder]) == 0
    assert capsys.readouterr().out == f"Restored step 10: {folder}\n"
    assert contents(tmp_path / "new") == kept(model_dir)
    assert main(["restore", "--backup", saved, "--model-dir", folder]) == 2
    assert "new: expected a new or empty folder" in capsys.readouterr().err


def test_the_command_finds_nothing(url, tmp_path, capsys):
    assert main(["restore", "--backup", url, "--model-dir", str(tmp_path / "new")]) == 2
    assert "no checkpoint has been uploaded" in capsys.readouterr().err
