"""A model directory of small files, and an empty object store in memory."""

import json
import pathlib
import secrets

import pytest

from tests.conftest import small_config
from training.checkpointing.run_metadata import run_fingerprint

fsspec = pytest.importorskip("fsspec")


@pytest.fixture
def run() -> dict:
    """The fingerprint of a run."""
    return run_fingerprint(small_config(), "a corpus", None)


@pytest.fixture
def url() -> str:
    """The URL of a backup; the store in memory is shared by all tests of a process."""
    return f"memory://bucket-{secrets.token_hex(8)}/run"


def write_checkpoint(model_dir: pathlib.Path, step: int) -> None:
    """Writes files as training does when it saves a checkpoint, but for their contents."""
    folder = model_dir / "checkpoints"
    folder.mkdir(exist_ok=True)
    replace(model_dir / "model.weights.h5", f"weights of step {step}")
    for suffix in ("data-00000-of-00001", "index"):
        replace(folder / f"step-{step}.{suffix}", f"{suffix} of step {step}")


def replace(path: pathlib.Path, content: str) -> None:
    temporary = path.with_name(f"temporary-{path.name}")
    temporary.write_text(content)
    temporary.replace(path)


def start(model_dir: pathlib.Path, run: dict) -> None:
    """Writes what training writes before its first step, and logs."""
    (model_dir / "logs" / "training").mkdir(parents=True)
    (model_dir / "training.json").write_text(json.dumps(run))
    (model_dir / "config.json").write_text("{}")
    (model_dir / "target.spm").write_text("pieces")
    (model_dir / "logs/training/events.out.tfevents.1.host.1.0.v2").write_text("reports\n")


@pytest.fixture
def model_dir(tmp_path, run) -> pathlib.Path:
    """A model directory after step 10, with files that are none of a backup."""
    folder = tmp_path / "model"
    start(folder, run)
    write_checkpoint(folder, 10)
    (folder / "initial").mkdir()
    (folder / "initial" / "model.weights.h5").write_text("initial weights")
    (folder / "notes.txt").write_text("private")
    return folder


def contents(folder: pathlib.Path) -> dict[str, str]:
    return {
        path.relative_to(folder).as_posix(): path.read_text()
        for path in folder.rglob("*")
        if path.is_file()
    }


def kept(folder: pathlib.Path) -> dict[str, str]:
    """What a backup has of a folder."""
    left_out = ("initial/model.weights.h5", "notes.txt")
    return {name: text for name, text in contents(folder).items() if name not in left_out}
