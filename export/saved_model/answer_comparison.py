"""Compares what a SavedModel answers with what the translator in this process does."""

from typing import Any

import numpy as np

from tf_transformer.errors import InputError
from tf_transformer.tasks.table import TASKS

_NUMBERS_AS_TEXT = {
    output.name for task in TASKS.values() for output in task.outputs if output.is_numbers
}
_TEXT_LENGTH = 60
_DIFFERS = "the SavedModel differs from the model in"


class AnswerComparison:
    """Compares the answers of one signature, batch by batch.

    Strings and integers must be equal, floating-point numbers within 1e-4: the same products may be
    summed in another order. In 8 bits such a rounding can move an input of a product to the next
    integer. Then a score changes by some thousandths to hundredths, and of two hypotheses with
    almost the same score the other one may be returned. So with `is_int8`, scores may differ by
    0.1, probabilities by 0.02, and one in eight rows by more, but for the first ones; a fault of
    the graph or of its files shows in more.

    Args:
        signature: its name, for messages.
        is_int8: whether products of the model are those of 8-bit integers.
        num_exact: number of first rows that must not differ by more than numbers may.
    """

    def __init__(self, signature: str, *, is_int8: bool, num_exact: int = 0):
        self._signature, self._is_int8, self._num_exact = signature, is_int8, num_exact
        self._num_rows = 0
        self._differences: dict[int, str] = {}

    def add(self, expected: dict[str, np.ndarray], answer: dict[str, list]) -> None:
        """Compares a batch.

        Args:
            expected: the outputs of the model, each `(rows, ...)`.
            answer: those of the SavedModel, as nested lists.

        Raises:
            InputError: an output has another form, or other numbers are not finite.
        """
        for output, values in expected.items():
            actual = self._array(output, answer.get(output), values)
            for row in range(len(values)):
                # Slices: strings keep the zero bytes at their end only in an array of objects.
                rows = values[row : row + 1], actual[row : row + 1]
                if not self._are_same(output, *rows):
                    number = self._num_rows + row
                    message = f"{output} of {self._signature}, row {number}. {_describe(*rows)}"
                    self._differences.setdefault(number, message)
        self._num_rows += len(values)

    def check(self) -> None:
        """Checks that no more rows differ than may.

        Raises:
            InputError: an output differs; the message names the first.
        """
        first = min(self._differences, default=self._num_exact)
        allowed = self._num_rows // 8 if self._is_int8 else 0
        if len(self._differences) > allowed or first < self._num_exact:
            raise InputError(f"{_DIFFERS} {self._differences[first]}")

    def _array(self, output: str, answer: list | None, expected: np.ndarray) -> np.ndarray:
        actual = np.array(answer, object if expected.dtype.kind == "O" else None)
        if answer is not None and not actual.size and not expected.size:
            return expected
        forms = [(array.shape, array.dtype.kind) for array in (expected, actual)]
        if forms[0] != forms[1] or answer is None:
            raise InputError(
                f"{_DIFFERS} the form of {output} of {self._signature}. Expected: {forms[0]}. "
                f"Received: {'none' if answer is None else forms[1]}"
            )
        actual = actual.astype(expected.dtype)
        is_float = expected.dtype.kind == "f"
        if is_float and not np.array_equal(np.isfinite(actual), np.isfinite(expected)):
            raise InputError(
                f"{_DIFFERS} {output} of {self._signature}: a number is not finite. "
                f"{_describe(expected, actual)}"
            )
        return actual

    def _are_same(self, output: str, expected: np.ndarray, actual: np.ndarray) -> bool:
        if output in _NUMBERS_AS_TEXT:
            return _are_close(expected[0], actual[0], 0.02 if self._is_int8 else 1e-3)
        if expected.dtype.kind == "f":
            tolerance = (0.02 if output == "confidence" else 0.1) if self._is_int8 else 1e-4
            close = np.isclose(actual, expected, rtol=1e-4, atol=tolerance)
            return bool(np.all(close | (actual == expected)))  # equal infinities, too
        return np.array_equal(expected, actual)


def _are_close(expected: bytes, actual: bytes, tolerance: float) -> bool:
    if expected == actual:
        return True
    rows = [[word.split(b",") for word in text.split()] for text in (expected, actual)]
    if [len(word) for word in rows[0]] != [len(word) for word in rows[1]]:
        return False
    first, second = ([float(number) for word in row for number in word] for row in rows)
    return np.allclose(first, second, atol=tolerance)


def _describe(expected: np.ndarray, actual: np.ndarray) -> str:
    """Says where a row differs most from another one, or first if they are no numbers.

    Args:
        expected: `(rows, ...)`; the number of the row is not said.
        actual: of the same form.
    """
    differs = expected != actual
    if expected.dtype.kind == "f":
        with np.errstate(invalid="ignore"):  # of equal infinities
            differs = np.where(differs, np.abs(expected - actual), 0)
    where = np.unravel_index(np.argmax(differs), expected.shape)
    place = f"At {[int(index) for index in where[1:]]}, expected: " if where[1:] else "Expected: "
    return f"{place}{_short(expected[where])}. Received: {_short(actual[where])}"


def _short(value: Any) -> str:
    text = f"{value:.6g}" if isinstance(value, np.floating) else str(value)
    return text if len(text) <= _TEXT_LENGTH else text[: _TEXT_LENGTH - 3] + "..."
