"""`python -m benchmarks.same_numbers`: what it finds, and that what it runs still exists."""

import pathlib

import ml_dtypes
import numpy as np
import pytest

import tf_transformer
from benchmarks.same_numbers import commands, models
from benchmarks.same_numbers.comparison import CHANGED, compare, details, table
from benchmarks.same_numbers.numbers import Numbers, read_numbers, texts
from benchmarks.same_numbers.saved_models import numbers_of
from tests.test_imports import OURS, imports_of, is_within
from tf_transformer import TransformerConfig
from training.settings import make_config, parse_setting, read_settings

FOLDER = pathlib.Path(__file__).parents[1] / "benchmarks" / "same_numbers"
LOGITS = ("logits", "post norm", "")
# Name: what the two versions computed, and whether that is a fault.
PAIRS = {
    "equal": ([0.0, 8.0, -1.0], [0.0, 8.0, -1.0], False),
    "within, relative to the largest": ([0.0, 8.0, -1.0], [0.0, 8.0, -1.000007], False),
    "too much": ([0.0, 8.0, -1.0], [0.0, 8.0, -1.000009], True),
    "too much, of small ones": ([0.0, 1e-6], [0.0, 1.00001e-6], True),
    "both infinite": ([np.inf, 1.0], [np.inf, 1.0], False),
    "both NaN": ([np.nan, 1.0], [np.nan, 1.0], False),
    "one NaN": ([0.5, 1.0], [np.nan, 1.0], True),
    "one infinite": ([0.5, 1.0], [np.inf, 1.0], True),
    "other shape": ([1.0, 1.0], [1.0], True),
    "counts": ([3, 4], [3, 5], True),
    "same texts": ([b"a", b"b"], [b"a", b"b"], False),
    "other text": ([b"a", b"b"], [b"a", b"c"], True),
    "text and number": ([b"1"], [1.0], True),
}


@pytest.mark.parametrize("name", PAIRS)
def test_differences(name):
    before, after, is_wrong = PAIRS[name]
    (found,) = compare({LOGITS: np.array(before)}, {LOGITS: np.array(after)})
    assert found.is_wrong == is_wrong
    assert ("DIFFERENT" in table([found])[-1]) == is_wrong
    assert bool(details([found])) == bool(found.absolute)


@pytest.mark.parametrize("before, after", [({LOGITS: np.ones(3)}, {}), ({}, {LOGITS: np.ones(3)})])
def test_missing_arrays_are_differences(before, after):
    (found,) = compare(before, after)
    assert found.is_wrong and found.count == 3


def test_a_case_has_one_scale():
    """A gradient that is zero but for rounding is small beside the others of its model."""
    of_key, of_kernel, alone = (
        ("gradients", "post norm", "key/bias"),
        ("gradients", "post norm", "kernel"),
        ("gradients", "pre norm", "key/bias"),
    )
    before = {of_key: np.array(1e-9), of_kernel: np.array(0.5), alone: np.array(1e-9)}
    found = compare(before, before | {of_key: np.array(-1e-9), alone: np.array(-1e-9)})
    assert [comparison.is_wrong for comparison in found] == [False, False, True]
    assert found[0].relative == pytest.approx(4e-9)


def test_last_digits_of_texts():
    case = ("SavedModel, float32", "translator, align, soft_alignment", "")
    texts_of = (
        {case: numbers_of(np.array([text], object))} for text in (b"0.1234,1 0", b"0.1235,1 0")
    )
    before, after = texts_of
    (found,) = compare(before, after)
    assert not found.absolute
    (found,) = compare(before, {case: numbers_of(np.array([b"0.1236,1 0"], object))})
    assert found.is_wrong


def test_intentional_changes_are_reported_and_are_no_error():
    change, reason = next(iter(CHANGED.items()))
    before = {("SavedModel, float32", f"translator, {change}", ""): np.zeros(2)}
    (found,) = compare(before, {})
    assert not found.is_wrong
    assert "changed intentionally" in table([found])[-1]
    assert details([found])[0].endswith(f"({reason})")
    other = ("SavedModel, bfloat16", "translator, nbest_options, scores", "")
    (found,) = compare({other: np.zeros(2)}, {})
    assert not found.is_wrong
    (found,) = compare({("logits", f"translator, {change}", ""): np.zeros(2)}, {})
    assert found.is_wrong


def test_table_sums_up_the_cases():
    before = {("logits", case, ""): np.array([1.0, 2.0]) for case in ("a", "b")}
    after = before | {("logits", "b", ""): np.array([1.0, 2.000001])}
    assert table(compare(before, after))[2:] == [
        "| logits | 2 | 4 | 1.0e-06 | 5.0e-07 | within 1e-06 |"
    ]
    assert table(compare(before, before))[2:] == ["| logits | 2 | 4 | 0 | 0 | equal |"]


def test_numbers_are_read_as_they_were_written(tmp_path):
    numbers = Numbers()
    half = np.array([0.5, 1.5], ml_dtypes.bfloat16)
    strings = np.array([["ä".encode(), b""]], object)
    numbers.add("logits", "post norm", {"encoder/0/kernel": half, "text": strings})
    numbers.add("logits", "pre norm", {"": texts(["a", b"\xff"])})
    with pytest.raises(ValueError, match="once"):
        numbers.add("logits", "pre norm", {"": 1.0})
    numbers.save(tmp_path)
    found = read_numbers(tmp_path)
    np.testing.assert_array_equal(found["logits", "post norm", "encoder/0/kernel"], [0.5, 1.5])
    np.testing.assert_array_equal(found["logits", "post norm", "text"], [["ä".encode(), b""]])
    np.testing.assert_array_equal(found["logits", "pre norm", ""], [b"a", b"\xff"])


def test_only_what_every_version_has_is_used():
    """Public names and the command line, as the same program runs with an older version."""
    public = {f"tf_transformer.{name}" for name in tf_transformer.__all__}
    allowed = {"tf_transformer", "tf_transformer.__main__", "tf_transformer.__main__.main", *public}
    for path in sorted(FOLDER.glob("*.py")):
        found = imports_of(path.read_text(encoding="utf-8"), f"benchmarks.same_numbers.{path.stem}")
        ours = {name for name in found if is_within(name, OURS - {"benchmarks"})}
        assert ours <= allowed, path.name


@pytest.mark.parametrize(
    "settings", [(), commands.OF_PREPARED, commands.OF_LANGUAGE_MODEL, commands.IN_BFLOAT16]
)
def test_settings_of_the_runs_exist(settings):
    given = (*commands.MODEL, *commands.SETTINGS, *settings)
    make_config(read_settings(None, *map(parse_setting, given)))


@pytest.mark.parametrize("name", models.CONFIGS)
def test_configurations_exist(name):
    assert TransformerConfig(**(models.SIZES | models.CONFIGS[name])).d_model == 16
