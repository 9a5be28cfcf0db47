"""Links in a model directory that came from elsewhere, and the commands that write in it."""

import os
import pathlib
import shutil

import pytest

from tests.conftest import SMALL_SETTINGS
from tf_transformer.__main__ import main
from training.checkpointing.run_files import check_run_files

FILES = ["model.weights.h5", "training.png", "training.json", "validation_scores.json"]
FOLDERS = ["logs", "checkpoints", "best_checkpoints", "initial"]
SETTINGS = ["--set", *(f"{name}={value}" for name, value in SMALL_SETTINGS.items())]


@pytest.fixture
def model_dir(trained, tmp_path) -> pathlib.Path:
    shutil.copytree(trained, tmp_path / "model")
    return tmp_path / "model"


@pytest.fixture
def others(tmp_path) -> pathlib.Path:
    """The user's own files, some with names as in a model directory."""
    folder = tmp_path / "others"
    folder.mkdir()
    for name in ("notes", "step-7.notes", "step-8.data-00000-of-00001", ".writing-999999999.x"):
        (folder / name).write_text("precious")
    return folder


def contents(folder: pathlib.Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


def replace_with_link(path: pathlib.Path, target: pathlib.Path) -> None:
    """Moves the file, if there is any, to the link's target."""
    if path.is_dir():
        shutil.copytree(path, target, dirs_exist_ok=True)
        shutil.rmtree(path)
    elif path.exists():
        shutil.move(path, target)
    path.symlink_to(target)


def fails(capsys, *arguments) -> str:
    assert main(list(map(str, arguments))) == 2
    (line,) = [line for line in capsys.readouterr().err.splitlines() if "error: " in line]
    return line


@pytest.mark.parametrize("name", [*FILES, *FOLDERS])
def test_training_refuses_links_before_it_writes(name, corpus, model_dir, others, capsys):
    target = others if name in FOLDERS else others / "notes"
    replace_with_link(model_dir / name, target)
    before = contents(others), contents(model_dir)
    command = ["train", *corpus.options, "--model-dir", model_dir, *SETTINGS]
    line = fails(capsys, *command, "--steps", "40")
    assert f"{model_dir}/{name}: expected a file or folder, got a symbolic link" in line
    assert (contents(others), contents(model_dir)) == before


def test_links_in_the_folders_of_a_run(model_dir, others):
    check_run_files(model_dir)
    (model_dir / "logs" / "training" / "events.out.tfevents.1").symlink_to(others / "notes")
    with pytest.raises(ValueError, match=r"tfevents.1: expected .* symbolic link"):
        check_run_files(model_dir)


def test_a_pipe_in_place_of_the_picture(model_dir):
    os.mkfifo(model_dir / "training.png")
    with pytest.raises(ValueError, match=r"training.png: expected a regular file, got a pipe"):
        check_run_files(model_dir)


def test_links_that_are_only_read(model_dir, tmp_path):
    """A link to the model directory, and one in it that training does not write."""
    (model_dir / "corpus").symlink_to("/")
    (model_dir / "scores.jsonl").symlink_to("/nowhere")
    (tmp_path / "link").symlink_to(model_dir)
    check_run_files(tmp_path / "link")


def test_average_refuses_a_link(model_dir, others, capsys):
    replace_with_link(model_dir / "model.weights.h5", others / "notes")
    before = contents(others)
    line = fails(capsys, "average", "--model-dir", model_dir, "--last", "2")
    assert "model.weights.h5: expected a file or folder, got a symbolic link" in line
    assert contents(others) == before


def test_evaluate_refuses_a_link_before_it_translates(
    corpus, model_dir, others, tmp_path, capsys, monkeypatch
):
    monkeypatch.setattr("training.evaluation.evaluation.evaluate", None)
    (model_dir / "scores.jsonl").symlink_to(others / "notes")
    before = contents(others)
    texts = ["--source", corpus.path("test.en"), "--reference", corpus.path("test.de")]
    output = ["--output", tmp_path / "output"]
    line = fails(capsys, "evaluate", "--model-dir", model_dir, *texts, *output)
    assert "scores.jsonl: expected a file or folder, got a symbolic link" in line
    assert contents(others) == before and not (tmp_path / "output").exists()


def test_a_run_that_is_refused_removes_nothing(corpus, model_dir, capsys):
    """Neither what interrupted saves have left, nor what only looks so."""
    checkpoints = model_dir / "checkpoints"
    for path in (
        checkpoints / "step-8.data-00000-of-00001",
        checkpoints / "step-9.notes",
        model_dir / ".writing-999999999.x",
    ):
        path.write_text("x")
    before = contents(model_dir)
    command = ["train", *corpus.options, "--model-dir", model_dir, *SETTINGS]
    line = fails(capsys, *command, "optimization.seed=7")
    assert "was trained with optimization.seed=1; received 7" in line
    assert contents(model_dir) == before
