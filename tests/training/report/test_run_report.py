"""The page of `runs`: what is read of a model directory, and that damaged files are reported."""

import json
import pathlib
import re
import shutil

import pytest
from matplotlib.figure import Figure

from tests.training.report.hostile import HOSTILE
from tf_transformer.__main__ import main
from training.callbacks.tensorboard_log import TensorBoardLog
from training.evaluation.runs import Run, read_run
from training.report.recorded_run import RecordedRun, read_recorded_run
from training.report.recorded_samples import read_samples
from training.report.run_report import different_settings, runs_report


def _write_logs(model_dir):
    log = TensorBoardLog(model_dir / "logs")
    # Translations have no line breaks.
    lines = [line.replace("\x00", "") for line in HOSTILE]
    for step in (10, 20):
        rows = [(line, f"{line} | {step}", line[::-1]) for line in lines]
        log.translations(rows, step)
        log.picture("attention/cross", Figure(figsize=(1, 1)), step)
    return lines


def test_samples_come_back_as_they_were(tmp_path):
    lines = _write_logs(tmp_path)
    samples, pictures = read_samples(tmp_path / "logs" / "validation")
    assert [sample.source for sample in samples] == lines
    assert [sample.reference for sample in samples] == [line[::-1] for line in lines]
    assert all(
        sample.translations == {10: f"{line} | 10", 20: f"{line} | 20"}
        for sample, line in zip(samples, lines, strict=True)
    )
    (picture,) = pictures
    assert (picture.part, picture.step) == ("cross", 20) and picture.png[1:4] == b"PNG"
    assert read_samples(tmp_path / "nowhere") == ([], [])


def _run(path="model", **settings):
    return RecordedRun(Run(pathlib.Path(path)), settings=settings)


def test_settings_that_differ():
    rows = different_settings([_run(a=1, b="x", c=2.5), _run(a=1, b="y"), _run()])
    assert rows == [("b", ["x", "y", None])]
    assert different_settings([_run(a=1, b=None)]) == [("a", ["1"]), ("b", ["None"])]
    assert different_settings([_run(), _run()]) == []


def test_a_run_that_records_nothing():
    page = runs_report([_run("a/x"), _run("a/y")], [[["model"], ["a/x"]]])
    assert "<bdi>a/x</bdi>" in page
    assert not re.search("<h2[^>]*>(Curves|Settings|Samples|Attention)", page)


@pytest.fixture(scope="module")
def runs(trained, tmp_path_factory):
    """The trained model, and a copy with other settings, damaged logs and hostile samples."""
    folder = tmp_path_factory.mktemp("runs")
    for name in ("one", "two", "worn"):
        shutil.copytree(trained, folder / name)
    settings = json.loads((folder / "two" / "training.json").read_text())
    settings["settings"]["optimization"]["warmup_steps"] += 1
    (folder / "two" / "training.json").write_text(json.dumps(settings))
    shutil.rmtree(folder / "two" / "logs")
    _write_logs(folder / "two")
    (folder / "worn" / "validation_scores.json").write_text("{}")
    for file in (folder / "worn" / "logs" / "training").glob("*tfevents*"):
        file.unlink()
    (folder / "worn" / "logs" / "training" / "x.tfevents").mkdir()
    return folder


def test_what_a_model_directory_records(runs):
    recorded = read_recorded_run(read_run(runs / "one"))
    assert recorded.fault is None
    assert recorded.settings["model.d_model"] == 32
    (step, loss), *_ = recorded.validation["loss"]
    assert step > 0 and loss > 0
    assert {"loss", "learning rate"} <= recorded.training.keys()
    worn = read_recorded_run(read_run(runs / "worn"))
    assert "validation_scores.json: damaged" in worn.fault and "x.tfevents" in worn.fault
    assert worn.settings == recorded.settings
    assert worn.fault.count("validation_scores.json") == 1


def test_damaged_logs_are_reported(tmp_path):
    """TensorBoard shows what is before the damage, silently. A killed run is not damaged."""
    lines = _write_logs(tmp_path)
    (file,) = (tmp_path / "logs" / "validation").glob("*.v2")
    data = file.read_bytes()
    file.write_bytes(data[:-3])
    assert read_recorded_run(Run(tmp_path)).fault is None
    file.write_bytes(data[:-200] + bytes(100) + data[-100:])
    recorded = read_recorded_run(Run(tmp_path))
    assert re.fullmatch(rf"{file}: damaged at byte \d+; what follows .*", recorded.fault)
    assert [sample.source for sample in recorded.samples] == lines


@pytest.mark.slow
def test_runs_report(runs, tmp_path, capsys):
    report = tmp_path / "runs.html"
    assert main(["runs", str(runs), "--report", str(report)]) == 0
    assert f"Report: {report}" in capsys.readouterr().out
    page = report.read_text()
    data = json.loads(page.partition('id="data">')[2].partition("</script>")[0])
    (two,) = (run for run in data["runs"] if run["name"] == "two")
    assert two["samples"][0]["translations"][1] == [20, f"{HOSTILE[0]} | 20"]
    assert page.count("<img") == 1 and 'src="data:image/png;base64,' in page
    assert "optimization.warmup_steps" in page and "model.d_model" not in page
    assert "validation loss" in page and "damaged: " in page


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("--report r.txt", "r.txt: expected a name that ends in .html"),
        ("--report x.html --json x.html", "--report x.html is also --json"),
        ("--report one/logs/x.html", "is a file of the model"),
    ],
)
def test_what_runs_refuses(runs, words, message, capsys, monkeypatch):
    monkeypatch.chdir(runs)
    assert main(["runs", ".", *words.split()]) == 2
    error = capsys.readouterr().err
    assert message in error and error.count("\n") == 1
