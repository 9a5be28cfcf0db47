"""`average --models`: the mean of models, and what has none."""

import json
import shutil

import h5py
import numpy as np
import pytest

from tf_transformer.__main__ import main
from tf_transformer.storage.model_dir import WEIGHTS_NAME, read_config, weights_digest
from tf_transformer.storage.weight_shapes import weight_shapes
from tf_transformer.storage.weights_file import read_arrays

FILES = ["config.json", WEIGHTS_NAME, "source.spm", "target.spm"]


def copied(model, folder, change=lambda name, array: array, **settings):
    """A copy of a model, with other weights and settings."""
    folder.mkdir()
    for name in FILES:
        shutil.copy(model / name, folder / name)
    with h5py.File(folder / WEIGHTS_NAME, "r+") as file:
        for name in arrays_of(model):
            file[name][...] = change(name, file[name][...])
    description = json.loads((folder / "config.json").read_text())
    description["model"] |= settings
    (folder / "config.json").write_text(json.dumps(description))
    return folder


def arrays_of(model):
    return dict(read_arrays(model / WEIGHTS_NAME, weight_shapes(read_config(model))))


def average(output, *words):
    return main(["average", "--model-dir", str(output), "--models", *map(str, words)])


@pytest.fixture
def noisy(trained, tmp_path):
    """A model that differs a little from `trained` in all weights."""
    draw = np.random.default_rng(0)
    return copied(
        trained,
        tmp_path / "noisy",
        lambda _, array: array + 0.02 * draw.normal(size=array.shape),
        **{"dropout_rate": 0.3, "max_length": 30},
    )


@pytest.mark.parametrize(
    ("weights", "shares"), [((), (0.5, 0.5)), ((3, 1), (0.75, 0.25)), ((1e308, 1e308), (0.5, 0.5))]
)
def test_the_mean_of_two_models(trained, noisy, tmp_path, capsys, weights, shares):
    output = tmp_path / "mean"
    options = ["--weights", *weights] if weights else []
    assert average(output, trained, noisy, *options) == 0
    assert capsys.readouterr().out == f"{output}: the mean of {trained}, {noisy}\n"
    assert sorted(path.name for path in output.iterdir()) == FILES
    first, second, found = map(arrays_of, (trained, noisy, output))
    assert first.keys() == found.keys()
    for name, array in found.items():
        expected = shares[0] * first[name].astype(np.float64) + shares[1] * second[name]
        np.testing.assert_allclose(array, expected, rtol=1e-6, atol=1e-7)
        assert np.abs(array - first[name]).max() > 0
    config = json.loads((output / "config.json").read_text())["model"]
    former = json.loads((trained / "config.json").read_text())["model"]
    assert config == former | {"max_length": 30}


def test_the_mean_of_equal_models_is_the_model(trained, tmp_path):
    assert average(tmp_path / "mean", trained, trained, trained) == 0
    assert weights_digest(tmp_path / "mean") == weights_digest(trained)


def refuses(capsys, tmp_path, *models):
    """The one line of an error that leaves no folder."""
    before = sorted(tmp_path.iterdir())
    assert average(tmp_path / "mean", *models) == 2
    assert sorted(tmp_path.iterdir()) == before
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    return error


@pytest.mark.slow
def test_models_with_nothing_in_common(trained, tmp_path, capsys):
    draw = np.random.default_rng(0)
    other = copied(trained, tmp_path / "other", lambda _, array: draw.normal(size=array.shape))
    error = refuses(capsys, tmp_path, trained, trained, other)
    assert f"{trained} and {other} have too little in common (the cosine of their " in error
    zero = copied(trained, tmp_path / "zero", lambda _, array: 0 * array)
    assert "have too little in common" in refuses(capsys, tmp_path, trained, zero)
    assert "have too little in common" in refuses(capsys, tmp_path, zero, trained)


def test_models_with_other_settings(trained, tmp_path, capsys):
    other = copied(trained, tmp_path / "other", num_heads=1)
    error = refuses(capsys, tmp_path, trained, other)
    assert "have different models: num_heads is 2 and 1; a mean needs" in error


def test_models_with_other_vocabularies(trained, tmp_path, capsys):
    other = copied(trained, tmp_path / "other")
    pieces = bytearray((other / "source.spm").read_bytes())
    place = pieces.index("▁".encode()) + 3
    pieces[place : place + 1] = b"\x7a" if pieces[place : place + 1] != b"\x7a" else b"\x79"
    (other / "source.spm").write_bytes(pieces)
    error = refuses(capsys, tmp_path, trained, other)
    assert "have different vocabularies of the source; they need the same" in error


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_weights_that_are_not_finite(trained, tmp_path, capsys, value):
    def spoil(name, array):
        return np.where(np.arange(array.size).reshape(array.shape) == 1, value, array)

    other = copied(trained, tmp_path / "other", spoil)
    error = refuses(capsys, tmp_path, trained, other)
    assert str(other / WEIGHTS_NAME) in error and "expected finite weights" in error


def test_damaged_weights(trained, tmp_path, capsys):
    other = copied(trained, tmp_path / "other")
    (other / WEIGHTS_NAME).write_bytes((trained / WEIGHTS_NAME).read_bytes()[:-20_000])
    assert f"{other / WEIGHTS_NAME}: damaged" in refuses(capsys, tmp_path, trained, other)
