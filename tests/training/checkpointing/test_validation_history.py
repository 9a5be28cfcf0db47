"""What follows from a series of scores: the best, when to stop, which checkpoints stay."""

import json
import math
import pathlib
import random

import pytest

from training.checkpointing.best_checkpoints import best_checkpoint_paths, keep_best
from training.checkpointing.validation_history import ValidationScores, read_best_by

WAY = {"validation_set": "v", "beam_size": 1}


def make_scores(model_dir, bleu=(), best_by="bleu", way=WAY):
    scores = ValidationScores(model_dir, best_by, way)
    for number, value in enumerate(bleu, 1):
        scores.add(10 * number, {"loss": 5.0 - number, "bleu": value})
    return scores


def test_the_first_of_equals_is_best(tmp_path):
    scores = make_scores(tmp_path, [1.0, 3.0, 3.0, 2.0])
    assert scores.ranked() == [20, 30, 40, 10]
    assert scores.ranked(until=10) == [10]
    assert [scores.num_without_improvement(step) for step in (10, 20, 30, 40)] == [0, 0, 1, 2]
    assert scores.describe_best(40) == "BLEU 3 at step 20"


def test_by_loss_the_lowest_is_best(tmp_path):
    scores = make_scores(tmp_path, [9.0, 8.0, 7.0], best_by="loss")
    assert scores.ranked() == [30, 20, 10]
    assert scores.describe_best(30) == "loss 2 at step 30"


@pytest.mark.parametrize("best_by", ["bleu", "loss"])
def test_stale_by_brute_force(tmp_path, best_by):
    draw = random.Random(1)
    for run in range(20):
        (tmp_path / str(run)).mkdir()
        scores = ValidationScores(tmp_path / str(run), best_by, WAY)
        series = []
        for number in range(1, 12):
            value = draw.choice([0.5, 1.0, 1.5, 2.0, math.nan])
            scores.add(number, {"loss": value, "bleu": value})
            series.append(-math.inf if math.isnan(value) else (1, -1)[best_by == "loss"] * value)
            best = max(range(len(series)), key=lambda index: (series[index], -index))
            assert scores.num_without_improvement(number) == len(series) - 1 - best


def test_a_checkpoint_without_translations_does_not_count(tmp_path):
    scores = make_scores(tmp_path, [2.0])
    scores.add(20, {"loss": 1.0})
    assert scores.ranked() == [10]
    assert scores.num_without_improvement(20) == 0
    assert scores.find(20)["loss"] == 1.0


def test_scores_made_in_another_way_are_kept_but_not_compared(tmp_path):
    make_scores(tmp_path, [50.0, 60.0])
    other = make_scores(tmp_path, [1.0], way=WAY | {"beam_size": 4})
    assert other.ranked() == [10]
    assert make_scores(tmp_path).ranked() == [20, 10]
    # Without a way: that of the newest step.
    assert ValidationScores(tmp_path, "bleu").ranked() == [20, 10]


def test_scores_are_read_again_and_replaced(tmp_path):
    make_scores(tmp_path, [1.0, 2.0])
    again = make_scores(tmp_path)
    again.add(10, {"loss": 0.0, "bleu": 7.0})
    assert again.ranked() == make_scores(tmp_path).ranked() == [10, 20]
    assert len(json.loads((tmp_path / "validation_scores.json").read_text())["scores"]) == 2
    assert read_best_by(tmp_path) == "bleu"


@pytest.mark.parametrize("text", ["", "[]", '{"scores": 3}', '{"scores": [{"step": "a"}]}'])
def test_a_damaged_file_is_named(tmp_path, text):
    (tmp_path / "validation_scores.json").write_text(text)
    with pytest.raises(ValueError, match=r"validation_scores\.json: damaged"):
        make_scores(tmp_path)


def write_checkpoint(directory: pathlib.Path, step: int, content: str) -> None:
    directory.mkdir(exist_ok=True)
    (directory / f"step-{step}.data-00000-of-00001").write_text(content)
    (directory / f"step-{step}.index").write_text(content)


def steps_in(directory: pathlib.Path) -> set[int]:
    return {int(path.stem.removeprefix("step-")) for path in directory.glob("*.index")}


def contents(directory: pathlib.Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in directory.iterdir()}


@pytest.mark.parametrize("seed", range(8))
def test_the_last_and_the_best_stay_by_brute_force(tmp_path, seed):
    draw = random.Random(seed)
    last, best = draw.randint(1, 4), draw.randint(0, 4)
    checkpoints, kept = tmp_path / "checkpoints", tmp_path / "best_checkpoints"
    values = [draw.choice([1.0, 2.0, 3.0, 4.0]) for _ in range(15)]
    scores = ValidationScores(tmp_path, "bleu", WAY)
    for step, value in enumerate(values):
        write_checkpoint(checkpoints, step, f"first {step}")
        for old in range(step - last + 1):
            for path in checkpoints.glob(f"step-{old}.*"):
                path.unlink()
        if draw.random() < 0.3:  # killed before validation; the step is repeated
            write_checkpoint(checkpoints, step, f"second {step}")
        scores.add(step, {"loss": 0.0, "bleu": value})
        keep_best(tmp_path, scores.ranked(step), best)
        ranked = sorted(range(step + 1), key=lambda index: (-values[index], index))
        assert (steps_in(kept) if best else set()) == set(ranked[:best])
    names = {path.name for path in (tmp_path / "best_checkpoints").glob("*")}
    assert len(names) == 2 * best
    for name in names:
        step = name.partition("-")[2].partition(".")[0]
        assert (kept / name).read_text() in (f"first {step}", f"second {step}")


def test_best_checkpoint_saved_again_is_replaced_as_a_whole(tmp_path):
    write_checkpoint(tmp_path / "checkpoints", 10, "former")
    keep_best(tmp_path, [10], 1)
    for path in (tmp_path / "checkpoints").iterdir():
        path.unlink()
    write_checkpoint(tmp_path / "checkpoints", 10, "new")
    keep_best(tmp_path, [10], 1)
    assert set(contents(tmp_path / "best_checkpoints").values()) == {"new"}


def test_best_are_copied_where_there_are_no_links(tmp_path, monkeypatch):
    def no_links(*_):
        raise OSError("no links here")

    monkeypatch.setattr("os.link", no_links)
    write_checkpoint(tmp_path / "checkpoints", 10, "weights")
    keep_best(tmp_path, [10], 1)
    assert contents(tmp_path / "best_checkpoints") == contents(tmp_path / "checkpoints")


def test_a_kept_checkpoint_without_a_comparable_score_stays(tmp_path):
    write_checkpoint(tmp_path / "best_checkpoints", 5, "of another way")
    write_checkpoint(tmp_path / "checkpoints", 10, "new")
    keep_best(tmp_path, [10], 1)
    assert steps_in(tmp_path / "best_checkpoints") == {5, 10}


def test_best_paths_come_from_both_folders(tmp_path):
    write_checkpoint(tmp_path / "best_checkpoints", 20, "")
    write_checkpoint(tmp_path / "checkpoints", 30, "")
    make_scores(tmp_path, [9.0, 3.0, 5.0])
    for count in (2, 3):  # the best, of step 10, is not kept
        paths = best_checkpoint_paths(tmp_path, count)
        assert [str(pathlib.Path(path).relative_to(tmp_path)) for path in paths] == [
            "checkpoints/step-30",
            "best_checkpoints/step-20",
        ]
    assert best_checkpoint_paths(tmp_path, 1) == paths[:1]


def test_best_paths_of_lost_checkpoints(tmp_path):
    make_scores(tmp_path, [9.0])
    with pytest.raises(ValueError, match=r"--best 3: .* holds no checkpoints with a BLEU"):
        best_checkpoint_paths(tmp_path, 3)


def test_best_needs_scores(tmp_path):
    with pytest.raises(ValueError, match=r"no checkpoint has been validated"):
        best_checkpoint_paths(tmp_path, 1)


def test_what_is_no_number_is_null_in_json(tmp_path):
    scores = ValidationScores(tmp_path, "loss", {})
    scores.add(2, {"loss": 1.0, "perplexity": 2.0})
    scores.add(4, {"loss": math.nan, "perplexity": math.inf})
    text = (tmp_path / "validation_scores.json").read_text()
    assert json.loads(text, parse_constant=pytest.fail)["scores"][1]["loss"] is None
    again = ValidationScores(tmp_path, "loss", {})
    assert again.ranked() == scores.ranked() == [2, 4]
    assert again.num_without_improvement(4) == scores.num_without_improvement(4) == 1
