"""A model directory belongs to one run, from the moment on that the run has begun."""

import pytest

from tests.conftest import small_config
from tf_transformer.storage.model_dir import CONFIG_NAME
from training.checkpointing.run_metadata import check_same_run, run_fingerprint, start_or_resume

RUN = run_fingerprint(small_config(), "corpus", None)
OTHER = run_fingerprint(small_config(optimization__seed=7), "corpus", None)


def beginning(model_dir, ends_with=None):
    """Describes a model; then the process is killed."""

    def begin():
        (model_dir / CONFIG_NAME).write_text("{}")
        if ends_with:
            raise ends_with

    return begin


def never():
    raise AssertionError("the run has begun before")


def test_killed_once_it_has_begun_it_goes_on(tmp_path):
    with pytest.raises(KeyboardInterrupt):
        start_or_resume(tmp_path, RUN, beginning(tmp_path, KeyboardInterrupt))
    start_or_resume(tmp_path, RUN, never)
    (tmp_path / "checkpoints").mkdir()
    (tmp_path / "checkpoints" / "step-5.index").write_text("x")
    with pytest.raises(ValueError, match=r"was trained with optimization\.seed=1; received 7"):
        start_or_resume(tmp_path, OTHER, never)


def test_fewer_steps_than_were_done(tmp_path):
    start_or_resume(tmp_path, RUN, beginning(tmp_path))
    (tmp_path / "checkpoints").mkdir()
    (tmp_path / "checkpoints" / "step-5.index").write_text("x")
    described = (tmp_path / "training.json").read_bytes()
    for steps, message in (
        (4, "has been trained for 5 steps; received optimization.steps=4"),
        (5, ""),
    ):
        run = run_fingerprint(small_config(optimization__steps=steps), "corpus", None)
        if message:
            with pytest.raises(ValueError, match=message):
                start_or_resume(tmp_path, run, never)
            assert (tmp_path / "training.json").read_bytes() == described
        else:
            start_or_resume(tmp_path, run, never)


@pytest.mark.parametrize("trace", ["model.weights.h5", "validation_scores.json"])
def test_a_run_that_never_trained_gives_way_to_another(tmp_path, trace):
    start_or_resume(tmp_path, RUN, beginning(tmp_path))
    start_or_resume(tmp_path, OTHER, beginning(tmp_path))
    start_or_resume(tmp_path, OTHER, never)
    (tmp_path / trace).write_text("x")
    with pytest.raises(ValueError, match=r"was trained with optimization\.seed=7; received 1"):
        start_or_resume(tmp_path, RUN, never)


def test_a_run_that_could_not_begin_leaves_the_folder_to_another(tmp_path):
    def fail():
        raise ValueError("the corpus is too small")

    with pytest.raises(ValueError, match="too small"):
        start_or_resume(tmp_path, RUN, fail)
    start_or_resume(tmp_path, OTHER, beginning(tmp_path))
    start_or_resume(tmp_path, OTHER, never)


def test_a_model_from_elsewhere_is_left_alone(tmp_path):
    beginning(tmp_path)()
    with pytest.raises(ValueError, match="did not train"):
        start_or_resume(tmp_path, RUN, never)
    assert [path.name for path in tmp_path.iterdir()] == [CONFIG_NAME]


def test_workers_of_one_run_agree_in_all_settings(tmp_path):
    """Between two calls, these may change; between two workers, `fit` would not fit."""
    start_or_resume(tmp_path, RUN, beginning(tmp_path))
    other = run_fingerprint(small_config(optimization__checkpoint_every=7), "corpus", None)
    check_same_run(tmp_path, other)
    with pytest.raises(ValueError, match=r"optimization\.checkpoint_every=10; received 7"):
        check_same_run(tmp_path, other, changeable=frozenset())
