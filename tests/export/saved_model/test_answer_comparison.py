"""What a SavedModel may answer otherwise than its model, in float32 and in int8."""

import numpy as np
import pytest

from export.saved_model.answer_comparison import AnswerComparison

ROWS = 16


def outputs(**changes):
    """A batch of answers; `changes` are values by output, each with its rows."""
    values = {
        "translation": np.array([b"text %d" % row for row in range(ROWS)], object),
        "score": np.linspace(-9, -1, ROWS).astype("float32"),
        "token_log_probs": np.full((ROWS, 3), (-np.inf, -1, -1), "float32"),
        "soft_alignment": np.array([b"0.1,0.9 0.5,0.5"] * ROWS, object),
    }
    for output, rows in changes.items():
        for row, value in rows.items():
            values[output][row] = value
    return values


def compare(is_int8=False, **changes):
    comparison = AnswerComparison("score", is_int8=is_int8)
    for _ in range(2):  # the third batch is the changed one
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
        ("token_log_probs", [-np.inf, -1, -5], r"At \[2\], expected: -1. Received: -5"),
        ("soft_alignment", b"0.1,0.9", r"Expected: b'0.1,0.9 0.5,0.5'. Received: b'0.1,0.9'"),
        ("soft_alignment", b"0.2,0.8 0.5,0.5", "Expected: b'0.1,0.9 0.5,0.5'. Received: .*"),
    ],
)
def test_the_difference_is_one_line(output, value, description):
    with pytest.raises(ValueError, match=f"^.* in {output} of score, row 35. {description}$"):
        compare(**{output: {3: value}})


@pytest.mark.parametrize(
    ("name", "answer", "received"),
    [
        ("score", None, "none"),
        ("score", [0.0] * (ROWS - 1), r"\(\(15,\), 'f'\)"),
        ("score", [1] * ROWS, r"\(\(16,\), 'i'\)"),
        ("token_log_probs", [[0.0] * 2] * ROWS, r"\(\(16, 2\), 'f'\)"),
    ],
)
def test_other_forms_are_errors(name, answer, received):
    given = {key: value.tolist() for key, value in outputs().items()} | {name: answer}
    message = (
        f"^the SavedModel differs from the model in the form of {name} .* Received: {received}$"
    )
    with pytest.raises(ValueError, match=message):
        AnswerComparison("score", is_int8=True).add(outputs(), given)


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_numbers_that_are_not_finite_are_errors_in_any_row(value):
    with pytest.raises(
        ValueError, match=r"score of score: a number is not finite\. Expected: -9\."
    ):
        compare(True, score={0: value})


def test_probabilities_are_compared_more_closely():
    changed = {row: b"0.15,0.85 0.5,0.5" for row in range(ROWS)}
    with pytest.raises(ValueError, match=r"soft_alignment of score, row 32\."):
        compare(True, soft_alignment=changed)


def test_the_first_rows_are_exact():
    """Nothing rounds where there is no text."""
    comparison = AnswerComparison("score", is_int8=True, num_exact=2)
    answer = {key: value.tolist() for key, value in outputs(translation={1: b"x"}).items()}
    comparison.add(outputs(), answer)
    with pytest.raises(ValueError, match="translation of score, row 1"):
        comparison.check()
