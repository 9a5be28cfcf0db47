"""Outputs that would replace what a command reads."""

import os

import pytest

from tf_transformer.storage.output_files import MODEL_FILES, check_output_file
from training.checkpointing import run_files
from training.checkpointing.best_checkpoints import best_directory
from training.checkpointing.checkpoint_files import checkpoint_directory


@pytest.fixture
def model(tmp_path):
    """A model directory whose weights are a link and whose logs are elsewhere."""
    model = tmp_path / "model"
    (model / "checkpoints").mkdir(parents=True)
    (tmp_path / "logs-elsewhere").mkdir()
    (model / "logs").symlink_to("../logs-elsewhere")
    (tmp_path / "weights").write_text("w")
    (model / "model.weights.h5").symlink_to("../weights")
    (model / "config.json").write_text("{}")
    (tmp_path / "link").symlink_to("model")
    os.link(model / "config.json", tmp_path / "same")
    return model


@pytest.mark.parametrize(
    "name",
    [
        *("model/config.json", "model/scores.jsonl", "model/model.weights.h5", "weights", "same"),
        *("link/config.json", "model/checkpoints/step-1.index", "model/checkpoints/a/b"),
        *("logs-elsewhere/x", "model/best_checkpoints/x", "model/checkpoints"),
    ],
)
def test_files_of_a_model_are_refused(model, tmp_path, name):
    with pytest.raises(ValueError, match=f"--json .*{name} is a file of the model .*model; give"):
        check_output_file("--json", tmp_path / name, [tmp_path / "other", model])


def test_other_files_are_allowed(model, tmp_path):
    for name in ("model/out.txt", "model/training.png", "scores.jsonl", "logs/x", "new/x"):
        check_output_file("--json", tmp_path / name, [model], [tmp_path / "weights"])


def test_inputs_are_refused(model, tmp_path):
    for name in ("model/config.json", "link/config.json", "same"):
        with pytest.raises(ValueError, match=f"--output .*{name} is an input file; give another"):
            check_output_file("--output", tmp_path / name, inputs=[model / "config.json"])


def test_every_file_that_training_writes_is_named(tmp_path):
    written = {*run_files._FILES, run_files.LOGS_NAME, run_files.INITIAL_NAME}
    written |= {checkpoint_directory(tmp_path).name, best_directory(tmp_path).name}
    assert written - {run_files.PICTURE_NAME} <= set(MODEL_FILES)
