import numpy as np
import pytest

from export.saved_model.answer_comparison import AnswerComparison

ROWS = 16


def outputs(**changes):
    """A batch of answers; `changes` are values by output, each with its rows."""
    values = {
        "translation": np.array([b"text %d" % row for row in range(ROWS)], object),
        "score": np.linspace(-9, -1, ROWS).astype("float32"),
        "token_log_probs": np.full((ROWS, 3), -np.inf, "float32"),
        "soft_alignment": np.array([b"0.1,0.9 0.5,0.5"] * ROWS, object),
    }
    for output, rows in changes.items():
        for row, value in rows.items():
            values[output][row] = value
    return values


def compare(is_int8=False, **changes):
    comparison = AnswerComparison("score", is_int8=is_int8)
    for _ in range(2):  # the second batch is the changed one
        answer = {key: value.tolist() for key, value in outputs().items()}
        comparison.add(outputs(), answer)
    comparison.add(outputs(), {key: value.tolist() for key, value in outputs(**changes).items()})
    comparison.check()


@pytest.mark.parametrize("is_int8", [False, True])
def test_rounding_is_no_difference(is_int8):
    compare(is_int8, score={2: -9 + 2 * 8 / 15 + 5e-5}, soft_alignment={1: b"0.1005,0.9 0.5,0.5"})


def test_eight_bits_round_more():
    changes = {"score": {row: -9.05 + row * 8 / 15 for row in range(ROWS)}}
    compare(True, **changes)
    with pytest.raises(ValueError, match=r"score of score, row 32. Expected: -9. Received: -9.05$"):
        compare(**changes)


@pytest.mark.parametrize("rows", [1, 6, 7])
def test_eight_bits_may_find_another_hypothesis(rows):
    """In 6 of 48 rows: one in eight."""
    changes = {"translation": {row: b"other" for row in range(rows)}}
    message = "translation of score, row 32. Expected: b'text 0'. Received: b'other'$"
    with pytest.raises(ValueError, match=message):
        compare(**changes)
    if rows == 7:
        with pytest.raises(ValueError, match=message):
            compare(True, **changes)
    else:
        compare(True, **changes)


@pytest.mark.parametrize(
    ("output", "value", "description"),
    [
        ("translation", b"text 3\0", r"Expected: b'text 3'. Received: b'text 3\\x00'"),
        ("translation", b"x" * 4000, r"Expected: b'text 3'. Received: b'x{55}\.\.\."),
        ("score", np.nan, r"Expected: -7.4. Received: nan"),
        ("token_log_probs", [-np.inf, -3, -5], r"At \[1\], expected: -inf. Received: -3"),
        ("soft_alignment", b"0.1,0.9", r"Expected: b'0.1,0.9 0.5,0.5'. Received: b'0.1,0.9'"),
        ("soft_alignment", b"0.2,0.8 0.5,0.5", "Expected: b'0.1,0.9 0.5,0.5'. Received: .*"),
    ],
)
def test_the_difference_is_one_line(output, value, description):
    with pytest.raises(ValueError, match=f"^.* in {output} of score, row 35. {description}$"):
        compare(**{output: {3: value}})


def test_other_shapes_are_errors():
    with pytest.raises(ValueError, match="reshape"):
        compare_short = AnswerComparison("score", is_int8=True)
        compare_short.add(outputs(), {key: value.tolist()[1:] for key, value in outputs().items()})
