"""Differences between the numbers of two versions, as a table."""

import collections
from typing import NamedTuple

import numpy as np

TOLERANCE = 1e-6

# What was changed on purpose, by signature and output of a SavedModel: reported, not judged.
CHANGED = {
    "tokens, truncated": "b74d321: ids have the limit's width, so none are cut off",
    "tokens_options, truncated": "b74d321: ids have the limit's width, so none are cut off",
}

Arrays = dict[tuple[str, str, str], np.ndarray]


class Comparison(NamedTuple):
    """One array of both versions.

    Attributes:
        what, case, name: see `Numbers`.
        count: how many numbers or texts it holds.
        absolute: the largest difference; of texts 1 where they differ, infinite where the shapes
            differ or one version has no such array.
        relative: the same over the largest value of the whole case.
        reason: why it was changed on purpose; None where it was not.
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
        return self.relative > TOLERANCE and self.reason is None


def compare(before: Arrays, after: Arrays) -> list[Comparison]:
    """Compares all arrays of two versions, in the order of the former."""
    scales: dict[tuple[str, str], float] = collections.defaultdict(float)
    for (what, case, _), values in before.items():
        scales[what, case] = max(scales[what, case], _largest(values))
    comparisons = []
    for key in before | after:
        absolute = _difference(before.get(key), after.get(key))
        what, case, name = key
        scale = scales[what, case] or 1.0
        count = before.get(key, after.get(key)).size
        comparisons.append(
            Comparison(what, case, name, count, absolute, absolute / scale, _reason(what, case))
        )
    return comparisons


def _reason(what, case):
    if not what.startswith("SavedModel"):
        return None
    return next((why for end, why in CHANGED.items() if case.endswith(f", {end}")), None)


def _largest(values):
    if values.dtype.kind == "S":
        return 1.0
    finite = values[np.isfinite(values)]
    return float(np.abs(finite.astype("float64")).max(initial=0.0))


def _difference(before, after):
    """The largest difference; NaN and the infinities equal themselves alone."""
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
    """A line for each thing that was compared."""
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
        return "changed on purpose"
    if any(comparison.absolute for comparison in judged):
        return f"within {TOLERANCE:g}"
    return "equal" if len(judged) == len(group) else "equal but for a change on purpose"


def details(comparisons: list[Comparison], most: int = 5) -> list[str]:
    """Of each case that differs, the arrays that do so most."""
    lines = []
    cases = collections.defaultdict(list)
    for comparison in comparisons:
        if comparison.absolute:
            cases[comparison.what, comparison.case].append(comparison)
    for (what, case), group in cases.items():
        group.sort(key=lambda comparison: comparison.relative, reverse=True)
        for comparison in group[:most]:
            lines.append(_line(comparison))
        if len(group) > most:
            lines.append(f"{what}, {case}: {len(group) - most} more")
    return lines


def _line(comparison):
    name = ", ".join(filter(None, (comparison.what, comparison.case, comparison.name)))
    if np.isinf(comparison.absolute):
        found = "in one version alone, of another shape, or not finite"
    else:
        found = f"{_number(comparison.absolute)}, relative {_number(comparison.relative)}"
    return f"{name}: {found}" + (f" ({comparison.reason})" if comparison.reason else "")
