"""Search spaces from YAML files."""

import pytest

from training.tuning.request import start_or_resume
from training.tuning.space import Domain, SearchSpace, grid, read_space

SPACE = """
settings:
  model.dropout_rate: [0.1, 0.2]
  optimization.learning_rate_factor: {from: 0.5, to: 4, log: true}
  optimization.warmup_steps: {from: 1000, to: 4000, step: 1000}
  data.batch_sentences: [64, null]
search:
  beam_size: [1, 4]
  length_penalty: {from: 0, to: 1.0, step: 0.25}
"""


def read(tmp_path, text):
    path = tmp_path / "space.yaml"
    path.write_text(text)
    return read_space(path)


def test_read(tmp_path):
    assert read(tmp_path, SPACE) == SearchSpace(
        settings={
            "model.dropout_rate": Domain(choices=(0.1, 0.2)),
            "optimization.learning_rate_factor": Domain(low=0.5, high=4.0, log=True),
            "optimization.warmup_steps": Domain(low=1000, high=4000, step=1000),
            "data.batch_sentences": Domain(choices=(64, None)),
        },
        search={
            "beam_size": Domain(choices=(1, 4)),
            "length_penalty": Domain(low=0.0, high=1.0, step=0.25),
        },
    )
    assert read(tmp_path, "search:\n  beam_size: [2]\n").settings == {}


def test_grid(tmp_path):
    space = read(tmp_path, SPACE)
    found = list(grid(space.search))
    penalties = [0.0, 0.25, 0.5, 0.75, 1.0]
    assert found == [
        {"beam_size": size, "length_penalty": alpha} for size in (1, 4) for alpha in penalties
    ]
    assert Domain(low=2, high=4).grid("x") == (2, 3, 4)
    assert Domain(low=0.0, high=0.3, step=0.1).grid("x") == (0.0, 0.1, 0.2, 0.3)
    with pytest.raises(ValueError, match=r"learning_rate_factor: a grid needs a list of values"):
        list(grid(space.settings))
    with pytest.raises(ValueError, match=r"at most 10,000 combinations, got 1,000,000"):
        list(grid(dict.fromkeys("ab", Domain(low=1, high=1000))))
    with pytest.raises(ValueError, match=r"x: expected at most 1,000 values, got 1,001"):
        Domain(low=0, high=1000).grid("x")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "expected the sections settings and search"),
        ("- 1", "expected the sections settings and search"),
        ("setting: {}", r"Received: \['setting'\]"),
        ("settings: [1]", "settings: expected names and values"),
        ("settings: {1: [2]}", "settings: expected names and values"),
        ("settings: {model.d_modle: [8]}", "unknown setting 'model.d_modle'; did you mean"),
        ("settings: {model.encoder.d_modle: [8]}", "unknown setting 'model.encoder.d_modle'"),
        ("settings: {optimization.wramup: [8]}", "unknown setting 'optimization.wramup'"),
        ("settings: {model.d_model: [8, x]}", "`model.d_model` must be a valid integer"),
        ("settings: {model.dropout_rate: {from: 0.5, to: 1.5}}", "`model.dropout_rate` must be"),
        ("settings: {validation.beam_size: [8]}", "does not change the model"),
        ("settings: {model.d_model: 8}", "expected a list of values, or {from: A, to: B}"),
        ("settings: {model.d_model: []}", "a list of 1 to 1,000 single values"),
        ("settings: {model.d_model: [[8]]}", "a list of 1 to 1,000 single values"),
        ("settings: {model.d_model: [8, 8]}", "expected each value once"),
        ("settings: {model.d_model: {from: 8}}", "expected a list of values, or {from: A"),
        ("settings: {model.d_model: {from: 8, to: 9, by: 1}}", "expected a list of values, or"),
        ("settings: {model.d_model: {from: 8, to: 8}}", "expected from < to"),
        ("settings: {model.d_model: {from: 8, to: x}}", "expected numbers"),
        ("settings: {model.d_model: {from: 8, to: 9, step: 0}}", "a positive step"),
        ("settings: {model.dropout_rate: {from: 0, to: 0.1, log: true}}", "from > 0 with log"),
        ("settings: {model.d_model: {from: 8, to: 9, step: 1, log: true}}", "not both"),
        ("search: {beam: [8]}", "search: expected beam_size or length_penalty, got 'beam'"),
        ("search: {beam_size: [0]}", "beam_size: expected 1 to 1000, got 0"),
        ("search: {beam_size: [1.5]}", "beam_size: expected 1 to 1000, got 1.5"),
        ("search: {length_penalty: [true]}", "length_penalty: expected 0 to 10, got True"),
        ("search: {length_penalty: {from: 0.1, to: 1.0}}", "length_penalty: a grid needs"),
        ("settings: &a {x: *a}", "not YAML|recursive|alias"),
    ],
)
def test_refuses(tmp_path, text, message):
    with pytest.raises(ValueError, match=message) as caught:
        read(tmp_path, text)
    assert "space.yaml" in str(caught.value)


def test_no_such_file(tmp_path):
    with pytest.raises(ValueError, match="x: no such file"):
        read_space(tmp_path / "x")


def test_another_tuning_is_not_mixed_in(tmp_path):
    request = {"settings": {"model": {"d_model": 8}}, "seed": 1}
    start_or_resume(tmp_path, request)
    (tmp_path / "study.db").touch()
    start_or_resume(tmp_path, request)
    with pytest.raises(
        ValueError,
        match=r"begun with settings.model.d_model 8, not 16; give the same",
    ):
        start_or_resume(tmp_path, request | {"settings": {"model": {"d_model": 16}}})
    with pytest.raises(ValueError, match=r"begun with seed 1, not without seed"):
        start_or_resume(tmp_path, {"settings": request["settings"]})
    (tmp_path / "tuning.json").write_text("{}")
    with pytest.raises(ValueError, match=r"tuning.json: not a record of a tuning"):
        start_or_resume(tmp_path, request)
    (tmp_path / "tuning.json").unlink()
    with pytest.raises(ValueError, match="expected a new or empty folder"):
        start_or_resume(tmp_path, request)
