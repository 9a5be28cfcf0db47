"""Averaging: the mean of the last checkpoints, and nothing else touched."""

import json
import os
import pathlib
import shutil

import numpy as np
import pytest
import tensorflow as tf

from export.saved_model.model_card import training_facts
from tests.conftest import small_config
from tf_transformer.__main__ import main
from tf_transformer.models.transformer import Transformer
from tf_transformer.storage.files import locked
from tf_transformer.storage.model_dir import load_model, read_config
from tf_transformer.storage.regular_files import stored_bytes
from tf_transformer.storage.weight_shapes import weight_shapes
from training.checkpointing.checkpoint_files import checkpoint_paths, last_checkpoint_paths, step_of
from training.checkpointing.checkpoints import Checkpoints, average_checkpoints, check_averageable
from training.model import build_model

_VALUE = ".ATTRIBUTES/VARIABLE_VALUE"


@pytest.mark.slow
def test_average_is_the_mean_of_the_checkpoints(trained):
    model = Transformer(read_config(trained))
    assert average_checkpoints(last_checkpoint_paths(trained, 2), model) == [20, 30]
    readers = [
        tf.train.load_checkpoint(str(trained / "checkpoints" / f"step-{n}")) for n in (20, 30)
    ]
    for number, weight in enumerate(model.weights):
        name = f"weights/{number}/.ATTRIBUTES/VARIABLE_VALUE"
        mean = (readers[0].get_tensor(name) + readers[1].get_tensor(name)) / 2
        np.testing.assert_allclose(weight.numpy(), mean, atol=1e-6)
    assert not np.allclose(readers[0].get_tensor(name), readers[1].get_tensor(name))


def rewrite_checkpoint(model_dir, change, name=f"weights/3/{_VALUE}") -> None:
    """Replaces one of the arrays in the newest checkpoint."""
    path = str(model_dir / "checkpoints" / "step-30")
    reader = tf.train.load_checkpoint(path)
    tensors = {name: reader.get_tensor(name) for name in reader.get_variable_to_shape_map()}
    tensors[name] = change(tensors.get(name))
    tf.raw_ops.SaveV2(
        prefix=path,
        tensor_names=list(tensors),
        shape_and_slices=[""] * len(tensors),
        tensors=list(tensors.values()),
    )


@pytest.mark.slow
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_weights_that_are_not_finite_are_not_averaged(trained, tmp_path, capsys, value):
    model_dir = tmp_path / "model"
    shutil.copytree(trained, model_dir)

    def spoil(array):
        array.flat[1] = value
        return array

    rewrite_checkpoint(model_dir, spoil)
    before = (model_dir / "model.weights.h5").read_bytes()
    assert main(["average", "--model-dir", str(model_dir), "--last", "2"]) == 2
    error = capsys.readouterr().err.splitlines()[-1]
    weight = read_weight_names(model_dir)[3]
    assert f"{model_dir}/checkpoints/step-30: 1 of the " in error
    assert f"{weight} are NaN or infinite" in error
    assert (model_dir / "model.weights.h5").read_bytes() == before


def read_weight_names(model_dir):
    model = Transformer(read_config(model_dir))
    return [weight.path.partition("/")[2] for weight in model.weights]


@pytest.mark.parametrize("change", [lambda array: array[None], lambda array: array.astype("f8")])
def test_arrays_of_another_shape_are_not_read(trained, tmp_path, change):
    model_dir = tmp_path / "model"
    shutil.copytree(trained, model_dir)
    rewrite_checkpoint(model_dir, change)
    model = Transformer(read_config(model_dir))
    with pytest.raises(ValueError, match=r"step-30: damaged, .*weights/3/\S+ is float\d+ of shape"):
        average_checkpoints(last_checkpoint_paths(model_dir, 1), model)


def test_checkpoints_that_are_no_files(trained, tmp_path):
    model_dir = tmp_path / "model"
    shutil.copytree(trained, model_dir)
    data = next((model_dir / "checkpoints").glob("step-30.data*"))
    data.unlink()
    os.mkfifo(data)
    model = Transformer(read_config(model_dir))
    with pytest.raises(ValueError, match=r"step-30: damaged.*expected a regular file, got a pipe"):
        average_checkpoints(last_checkpoint_paths(model_dir, 1), model)


def test_odd_names_are_no_checkpoints(tmp_path):
    directory = tmp_path / "checkpoints"
    directory.mkdir()
    odd = ["step-\N{SUPERSCRIPT TWO}", "step-\N{ARABIC-INDIC DIGIT THREE}", "step-007", "step--1"]
    odd += ["step-", "step-1 ", "step-1e3", f"step-{'9' * 200}", "step-5.more"]
    for name in (*odd, "step-40", "step-0"):
        (directory / f"{name}.index").touch()
    assert checkpoint_paths(directory) == [f"{directory}/step-0", f"{directory}/step-40"]
    assert training_facts([tmp_path], None) == {"training_steps": 40}


def test_average_of_the_last_is_the_trained_model(trained):
    model = Transformer(read_config(trained))
    average_checkpoints(last_checkpoint_paths(trained, 1), model)
    for ours, theirs in zip(model.weights, load_model(trained)[0].weights, strict=True):
        np.testing.assert_array_equal(ours.numpy(), theirs.numpy())


def test_command_waits_for_nobody(trained, tmp_path, capsys):
    model_dir = tmp_path / "model"
    shutil.copytree(trained, model_dir)
    with locked(model_dir, "at work"):
        assert main(["average", "--model-dir", str(model_dir), "--last", "3"]) == 2
    assert "another process is training this model" in capsys.readouterr().err


@pytest.mark.slow
def test_command_keeps_the_checkpoints(trained, tmp_path, capsys):
    model_dir = tmp_path / "model"
    shutil.copytree(trained, model_dir)
    before = {path.name: path.read_bytes() for path in (model_dir / "checkpoints").iterdir()}
    assert main(["average", "--model-dir", str(model_dir), "--last", "3"]) == 0
    output = capsys.readouterr().out
    assert output == "The weights are now the mean of those at steps 10, 20, 30.\n"
    assert {
        path.name: path.read_bytes() for path in (model_dir / "checkpoints").iterdir()
    } == before
    last, averaged = (load_model(path)[0].weights for path in (trained, model_dir))
    assert any(
        not np.array_equal(a.numpy(), b.numpy()) for a, b in zip(last, averaged, strict=True)
    )


@pytest.mark.slow
def test_command_averages_as_many_checkpoints_as_there_are(trained, tmp_path, capsys):
    """The guide says `--last 10`, which a first short run does not have."""
    weights = []
    for last in ("3", "10"):
        model_dir = tmp_path / last
        shutil.copytree(trained, model_dir)
        assert main(["average", "--model-dir", str(model_dir), "--last", last]) == 0
        weights.append(load_model(model_dir)[0].get_weights())
    assert capsys.readouterr().out.splitlines()[1:] == [
        "The weights are now the mean of those at steps 10, 20, 30.",
        "--last 10: there are no more checkpoints than these 3.",
    ]
    for ours, theirs in zip(*weights, strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_command_says_when_there_is_one_checkpoint(trained, tmp_path, capsys):
    model_dir = tmp_path / "model"
    shutil.copytree(trained, model_dir)
    for step in ("10", "20"):
        for path in (model_dir / "checkpoints").glob(f"*{step}*"):
            path.unlink()
    assert main(["average", "--model-dir", str(model_dir), "--last", "10"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "The weights are now those at step 30.",
        "--last 10: there are no more checkpoints than this one.",
    ]


def test_some_last_checkpoints(trained, tmp_path):
    for last, steps in ((1, [30]), (2, [20, 30]), (3, [10, 20, 30]), (4, [10, 20, 30])):
        assert [step_of(path) for path in last_checkpoint_paths(trained, last)] == steps
    with pytest.raises(ValueError, match="--last 0: expected at least 1"):
        last_checkpoint_paths(trained, 0)
    with pytest.raises(ValueError, match=r"--last 4: .*/checkpoints holds no checkpoints"):
        last_checkpoint_paths(tmp_path, 4)


def test_damaged_checkpoint_is_named(trained, tmp_path):
    shutil.copytree(trained, tmp_path / "model")
    damaged = tmp_path / "model" / "checkpoints" / "step-30.data-00000-of-00001"
    damaged.write_bytes(damaged.read_bytes()[:1000])
    with pytest.raises(ValueError, match=r"step-30: damaged, or of another model"):
        average_checkpoints(
            last_checkpoint_paths(tmp_path / "model", 2), Transformer(read_config(trained))
        )


def test_goes_on_from_the_newest_intact_checkpoint(trained, tmp_path, caplog):
    """Of 10, 20 and 30 the last two are damaged, each in another way."""
    directory = shutil.copytree(trained, tmp_path / "model") / "checkpoints"
    (directory / "step-30.index").write_bytes(b"")
    data = directory / "step-20.data-00000-of-00001"
    contents = bytearray(data.read_bytes())
    contents[len(contents) // 2] ^= 1  # a flipped bit: the checksum tells
    data.write_bytes(contents)
    model = build_model(small_config(), 400, 400)
    assert Checkpoints(tmp_path / "model", model, keep=3, every=10).restore()
    assert int(model.optimizer.iterations.numpy()) == 10
    assert "step-20: damaged" in caplog.text
    assert "step-30: damaged" in caplog.text
    names = {path.name for path in directory.iterdir()}
    assert {"damaged-step-20.index", "damaged-step-30.index", "step-10.index"} <= names
    assert not names & {"step-20.index", "step-30.index"}


@pytest.mark.slow
@pytest.mark.parametrize("name", ["run [1]", "runs [a-c]/run", "run*", r"a\b"])
def test_any_name_of_the_folder(trained, tmp_path, name):
    """TensorFlow takes the name of what it reads for a pattern, with `[` and `\\` in it."""
    model_dir = tmp_path / name
    shutil.copytree(trained, model_dir)
    read, expected = Transformer(read_config(trained)), Transformer(read_config(trained))
    assert average_checkpoints(last_checkpoint_paths(model_dir, 2), read) == average_checkpoints(
        last_checkpoint_paths(trained, 2), expected
    )
    for ours, theirs in zip(read.weights, expected.weights, strict=True):
        np.testing.assert_array_equal(ours.numpy(), theirs.numpy())
    model = build_model(small_config(), 400, 400)
    checkpoints = Checkpoints(model_dir, model, keep=3, every=10)
    assert checkpoints.restore()
    assert int(model.optimizer.iterations.numpy()) == 30
    model.optimizer.iterations.assign(40)
    checkpoints.save(40)
    assert checkpoints.restore()
    assert int(model.optimizer.iterations.numpy()) == 40


def test_data_without_an_index_is_removed(trained, tmp_path):
    """What a kill leaves between the two renames of a save, or the two removals of an old one."""
    directory = shutil.copytree(trained, tmp_path / "model") / "checkpoints"
    (directory / "step-30.index").unlink()
    model = build_model(small_config(), 400, 400)
    assert Checkpoints(tmp_path / "model", model, keep=3, every=10).restore()
    assert not list(directory.glob("step-30*"))
    assert list(directory.glob("step-20.data*"))


def test_full_disk_is_said_and_leaves_the_former_checkpoints(trained, tmp_path, monkeypatch):
    model_dir = tmp_path / "model"
    shutil.copytree(trained, model_dir)
    model = build_model(small_config(), 400, 400)
    checkpoints = Checkpoints(model_dir, model, keep=10, every=10)
    checkpoints.restore()

    def no_space(_, path):
        pathlib.Path(path).with_name("half").write_bytes(b"half")
        raise tf.errors.ResourceExhaustedError(None, None, "No space left on device")

    monkeypatch.setattr(tf.train.Checkpoint, "write", no_space)
    before = {path.name for path in (trained / "checkpoints").iterdir()}
    with pytest.raises(OSError, match="No space left on device"):
        checkpoints.save(40)
    assert {path.name for path in (model_dir / "checkpoints").iterdir()} == before


@pytest.mark.slow
def test_where_a_run_was_stopped_goes_with_the_next_save(trained, tmp_path):
    """10, 20 and 30 are regular steps; 33 is not."""
    model_dir = tmp_path / "model"
    directory = shutil.copytree(trained, model_dir) / "checkpoints"
    checkpoints = Checkpoints(model_dir, build_model(small_config(), 400, 400), 3, every=10)
    assert checkpoints.restore()
    for step, expected in ((33, [10, 20, 30, 33]), (40, [20, 30, 40]), (50, [30, 40, 50])):
        checkpoints.save(step)
        assert [step_of(path) for path in checkpoint_paths(directory)] == expected
        assert tf.train.latest_checkpoint(directory) == str(directory / f"step-{step}")
    assert len(list(directory.iterdir())) == 3 * 2 + 1


@pytest.mark.slow
def test_another_interval_leaves_the_former_checkpoints(trained, tmp_path):
    shutil.copytree(trained, tmp_path / "model")
    model = build_model(small_config(), 400, 400)
    Checkpoints(tmp_path / "model", model, keep=3, every=10).save(33)
    checkpoints = Checkpoints(tmp_path / "model", model, keep=3, every=7)
    checkpoints.save(35)
    steps = [step_of(path) for path in checkpoint_paths(tmp_path / "model/checkpoints")]
    assert steps == [20, 30, 35]
    assert not list((tmp_path / "model/checkpoints").glob("step-33*"))


@pytest.mark.slow
def test_a_kill_while_files_are_renamed_leaves_the_former_checkpoints(
    trained, tmp_path, monkeypatch
):
    model_dir = tmp_path / "model"
    shutil.copytree(trained, model_dir)
    model = build_model(small_config(), 400, 400)
    checkpoints = Checkpoints(model_dir, model, keep=3, every=10)
    checkpoints.restore()
    rename = os.replace

    def killed(source, target):
        if str(target).endswith(".index"):
            raise KeyboardInterrupt
        rename(source, target)

    monkeypatch.setattr(os, "replace", killed)
    with pytest.raises(KeyboardInterrupt):
        checkpoints.save(40)
    before = {path.name for path in (trained / "checkpoints").iterdir()}
    assert {path.name for path in (model_dir / "checkpoints").iterdir()} == before
    assert Checkpoints(model_dir, model, keep=3, every=10).restore()


@pytest.mark.slow
def test_restore_brings_back_every_variable(trained):
    model = build_model(small_config(), 400, 400)
    Checkpoints(trained, model, keep=10, every=10).restore()
    assert int(model.optimizer.iterations.numpy()) == 30
    for ours, theirs in zip(model.weights, load_model(trained)[0].weights, strict=True):
        np.testing.assert_array_equal(ours.numpy(), theirs.numpy())
    seeds = [v for v in model.variables if "seed_generator_state" in v.path]
    assert len(seeds) > 5
    # The dropout on embeddings draws twice a step, for source and target.
    assert sorted(int(seed.numpy()[1]) for seed in seeds) == [30] * (len(seeds) - 1) + [60]
    zero = {variable.name for variable in model.optimizer.variables if not np.any(variable)}
    assert zero == {"skipped"}


# ---- Checkpoints that came from elsewhere ----

ITERATIONS = f"optimizer/0/{_VALUE}"


@pytest.fixture
def checkpoints(trained, tmp_path) -> Checkpoints:
    """Of a copy of the model directory, in which they are the only one."""
    directory = shutil.copytree(trained, tmp_path / "model") / "checkpoints"
    for path in (*directory.glob("step-10.*"), *directory.glob("step-20.*")):
        path.unlink()
    model = build_model(small_config(), 400, 400)
    return Checkpoints(tmp_path / "model", model, keep=3, every=10)


def files_of(folder: pathlib.Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize(
    ("name", "change", "reason"),
    [
        (ITERATIONS, lambda _: np.int64(-5), "its optimizer has done -5 steps, not 30"),
        (ITERATIONS, lambda _: np.int64(2**62), f"its optimizer has done {2**62} steps, not 30"),
        ("_CHECKPOINTABLE_OBJECT_GRAPH", lambda _: b"\xff" * 30, ""),
        ("_CHECKPOINTABLE_OBJECT_GRAPH", lambda _: b"", ""),
        (
            f"weights/3/{_VALUE}",
            lambda array: np.zeros((1000, 1000), np.float32),
            r"weights/3/\S+: expected float32 of shape \[\d.*, got float32 of shape \[1000, 1000\]",
        ),
        (
            f"weights/3/{_VALUE}",
            lambda array: array.astype(np.float64),
            r"weights/3/\S+: expected float32 .*, got float64",
        ),
        ("more", lambda _: np.zeros(3), r"more: expected nothing, got float64 of shape \[3\]"),
    ],
)
def test_a_checkpoint_that_is_not_of_this_run(checkpoints, tmp_path, name, change, reason):
    rewrite_checkpoint(tmp_path / "model", change, name)
    before = files_of(tmp_path)
    with pytest.raises(ValueError, match=rf"no checkpoint of 1 can be read.*{reason}"):
        checkpoints.restore()
    assert files_of(tmp_path) == before


@pytest.mark.parametrize("name", ["weights/3", "optimizer/7"])
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_training_does_not_go_on_from_what_is_not_finite(checkpoints, tmp_path, name, value):
    rewrite_checkpoint(tmp_path / "model", lambda array: array * value, f"{name}/{_VALUE}")
    before = files_of(tmp_path)
    with pytest.raises(ValueError, match=r"step-30: .* are NaN or infinite"):
        checkpoints.restore()
    assert files_of(tmp_path) == before


@pytest.mark.slow
def test_the_newest_intact_checkpoint_is_one_of_its_step(trained, tmp_path, caplog):
    shutil.copytree(trained, tmp_path / "model")
    rewrite_checkpoint(tmp_path / "model", lambda _: np.int64(31), ITERATIONS)
    model = build_model(small_config(), 400, 400)
    assert Checkpoints(tmp_path / "model", model, keep=3, every=10).restore()
    assert int(model.optimizer.iterations.numpy()) == 20
    assert "step-30: damaged, or of another model (its optimizer has done 31 steps" in caplog.text


def test_only_what_saves_leave_is_removed(checkpoints, tmp_path):
    directory = tmp_path / "model" / "checkpoints"
    ours = {"step-8.data-00000-of-00001", "step-8.between"}
    others = {"step-8.notes", "step-8.data", "step-08.between", "step-8.data-00000-of-00001.bak"}
    for name in ours | others:
        (directory / name).write_text("x")
    before = set(os.listdir(directory))
    assert checkpoints.restore()
    assert before - set(os.listdir(directory)) == ours


def test_nothing_is_written_through_a_link_beside_the_checkpoints(checkpoints, tmp_path):
    assert checkpoints.restore()
    (tmp_path / "others").mkdir()
    (tmp_path / "others" / "step-30.between").write_text("precious")
    (tmp_path / "model" / "checkpoints" / "writing").symlink_to(tmp_path / "others")
    with pytest.raises(ValueError, match=r"checkpoints/writing: expected .* symbolic link"):
        checkpoints.save(30)
    assert os.listdir(tmp_path / "others") == ["step-30.between"]


@pytest.mark.parametrize("sizes", [{"d_model": 64}, {"num_decoder_layers": 2}])
def test_average_looks_at_the_checkpoints_before_it_makes_a_model(
    trained, tmp_path, capsys, monkeypatch, sizes
):
    monkeypatch.setattr("tf_transformer.storage.model_dir.make_model", None)
    model_dir = shutil.copytree(trained, tmp_path / "model")
    config = json.loads((model_dir / "config.json").read_text())
    config["model"].update(sizes)
    (model_dir / "config.json").write_text(json.dumps(config))
    assert main(["average", "--model-dir", str(model_dir), "--last", "2"]) == 2
    assert "step-20: damaged, or of another model (its" in capsys.readouterr().err


def test_a_checkpoint_of_holes(trained, tmp_path):
    path = str(shutil.copytree(trained, tmp_path / "model") / "checkpoints" / "step-30")
    config = read_config(trained)
    check_averageable([path], weight_shapes(config))
    data = pathlib.Path(f"{path}.data-00000-of-00001")
    size = data.stat().st_size
    data.unlink()
    with open(data, "wb") as file:
        file.truncate(size)
    if stored_bytes(data):
        pytest.skip("this file system does not tell holes from zeros")
    with pytest.raises(ValueError, match=r"step-30: damaged.*the weights need [\d,]+ bytes"):
        check_averageable([path], weight_shapes(config))
