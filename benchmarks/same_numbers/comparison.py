"""Compares the numbers of two versions and tabulates the differences."""

import collections
from typing import NamedTuple

import numpy as np

TOLERANCE = 1e-6
# By the kind of numbers. The gradient of a tied embedding may be summed in another order, and Adam
# makes steps of the rounding of key biases, whose true gradient is 0.
TOLERANCES = {"weights after 3 steps of fit": 5e-6}

# Intentional changes, by dtype, signature and output of a SavedModel; reported, but not an error.
CHANGED = {
    "tokens, truncated": "b74d321: ids have a fixed width, so that none are truncated",
    "tokens_options, truncated": "b74d321: ids have a fixed width, so that none are truncated",
    **{
        f"bfloat16, translator, {name}": "rows with a beam of 1 are searched apart: other roundings"
        for name in ("nbest_options, scores", "tokens_options, score")
    },
}

# Numbers that are written as texts, by the last digit, which may be rounded otherwise.
LAST_DIGITS = {"soft_alignment": 1e-4}

Arrays = dict[tuple[str, str, str], np.ndarray]


class Comparison(NamedTuple):
    """Comparison of one array of both versions.

    Attributes:
        what: kind of numbers, see `Numbers`.
        case: case, see `Numbers`.
        name: name of the array, see `Numbers`.
        count: number of values or texts.
        absolute: the largest difference; 1 for different texts, infinite if the shapes
            differ or one version lacks the array.
        relative: `absolute` divided by the largest value of the whole case.
        reason: reason of an intentional change, or None.
    """

    what: str
    case: str
    name: str
    count: int
    absolute: float
    relative: float
    reason: str | None

    @property
    def is_wrong(self) -> bool:
        return self.relative > TOLERANCES.get(self.what, TOLERANCE) and self.reason is None


def compare(before: Arrays, after: Arrays) -> list[Comparison]:
    """Compares all arrays of two versions, in the order of the first."""
    scales: dict[tuple[str, str], float] = collections.defaultdict(float)
    for (what, case, _), values in before.items():
        scales[what, case] = max(scales[what, case], _largest(values))
    comparisons = []
    for key in before | after:
        absolute = _difference(before.get(key), after.get(key))
        what, case, name = key
        if absolute <= 1.01 * LAST_DIGITS.get(case.rpartition(", ")[2], 0.0):
            absolute = 0.0
        scale = scales[what, case] or 1.0
        count = before.get(key, after.get(key)).size
        comparisons.append(
            Comparison(what, case, name, count, absolute, absolute / scale, _reason(what, case))
        )
    return comparisons


def _reason(what, case):
    if not what.startswith("SavedModel"):
        return None
    name = f"{what}, {case}"
    return next((why for end, why in CHANGED.items() if name.endswith(f", {end}")), None)


def _largest(values):
    if values.dtype.kind == "S":
        return 1.0
    finite = values[np.isfinite(values)]
    return float(np.abs(finite.astype("float64")).max(initial=0.0))


def _difference(before, after):
    """Returns the largest difference; NaN and infinities equal only themselves."""
    if before is None or after is None or before.shape != after.shape:
        return np.inf
    if (before.dtype.kind == "S") != (after.dtype.kind == "S"):
        return np.inf
    if before.dtype.kind == "S":
        return float((before != after).any())
    before, after = before.astype("float64"), after.astype("float64")
    same = (before == after) | (np.isnan(before) & np.isnan(after))
    with np.errstate(invalid="ignore"):
        differences = np.where(same, 0.0, np.abs(before - after))
    return float(np.nan_to_num(differences, nan=np.inf, posinf=np.inf).max(initial=0.0))


def table(comparisons: list[Comparison]) -> list[str]:
    """Returns a table in Markdown with one row for each kind of numbers."""
    lines = ["| what | cases | numbers | largest difference | relative | |", "|---" * 6 + "|"]
    groups = collections.defaultdict(list)
    for comparison in comparisons:
        groups[comparison.what].append(comparison)
    for what, group in groups.items():
        judged = [comparison for comparison in group if comparison.reason is None] or group
        cells = [
            what,
            str(len({comparison.case for comparison in group})),
            f"{sum(comparison.count for comparison in group):,}",
            _number(max(comparison.absolute for comparison in judged)),
            _number(max(comparison.relative for comparison in judged)),
            _verdict(group),
        ]
        lines.append("| " + " | ".join(cells) + " |")
    return lines


def _number(value):
    if np.isinf(value):
        return "not comparable"
    return f"{value:.1e}" if value else "0"


def _verdict(group):
    if any(comparison.is_wrong for comparison in group):
        return "DIFFERENT"
    judged = [comparison for comparison in group if comparison.reason is None]
    if not judged:
        return "changed intentionally"
    if any(comparison.absolute for comparison in judged):
        return f"within {TOLERANCES.get(group[0].what, TOLERANCE):g}"
    return "equal" if len(judged) == len(group) else "equal except for an intentional change"


def details(comparisons: list[Comparison], max_arrays: int = 5) -> list[str]:
    """Returns a line for each of the most different arrays of each case that differs."""
    lines = []
    cases = collections.defaultdict(list)
    for comparison in comparisons:
        if comparison.absolute:
            cases[comparison.what, comparison.case].append(comparison)
    for (what, case), group in cases.items():
        group.sort(key=lambda comparison: comparison.relative, reverse=True)
        for comparison in group[:max_arrays]:
            lines.append(_line(comparison))
        if len(group) > max_arrays:
            lines.append(f"{what}, {case}: {len(group) - max_arrays} more")
    return lines


def _line(comparison):
    name = ", ".join(filter(None, (comparison.what, comparison.case, comparison.name)))
    if np.isinf(comparison.absolute):
        found = "missing in one version, different shapes, or not finite"
    else:
        found = f"{_number(comparison.absolute)}, relative {_number(comparison.relative)}"
    return f"{name}: {found}" + (f" ({comparison.reason})" if comparison.reason else "")
