"""Picture of BLEU over words per second: a panel for each model, a point for each measurement."""

from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

# Of families of engines, the first words of their names; distinguishable for the color-blind.
_COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00")
_MARKERS = ("o", "s", "^", "D")
_FONT_SIZE = 9
_NAME_HEIGHT = 0.065  # of a panel's height


def draw(points: Sequence[Mapping[str, Any]]) -> Figure:
    """Draws the results.

    Args:
        points: dictionaries with `model`, `engine`, `beam_size`, `bleu` and `words_per_second`.

    Returns:
        A figure with a panel for each model. The points of an engine are joined, and its name
        belongs to that of its smallest beam; markers distinguish beams, colors families of engines.
    """
    models = list(dict.fromkeys(point["model"] for point in points))
    beams = sorted({point["beam_size"] for point in points})
    families = list(dict.fromkeys(_family(point) for point in points))
    figure = Figure(figsize=(9, 1.2 + 3.6 * len(models)), layout="constrained")
    grid = figure.subplots(len(models), 1, sharex=True, squeeze=False)[:, 0]
    speeds = [point["words_per_second"] for point in points]
    for axes, model in zip(grid, models, strict=True):
        own = [point for point in points if point["model"] == model]
        axes.set(xscale="log", ylabel="BLEU", title=model)
        axes.set_xlim(min(speeds) / 1.15, max(speeds) * 1.15)
        _set_heights(axes, [point["bleu"] for point in points])
        axes.grid(alpha=0.3, which="both")
        for engine in dict.fromkeys(point["engine"] for point in own):
            row = [point for point in own if point["engine"] == engine]
            _draw_engine(axes, sorted(row, key=lambda point: point["beam_size"]), beams, families)
        _draw_names(axes, own, families)
    grid[-1].set_xlabel("source words per second, from text to text")
    grid[-1].xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    grid[-1].xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
    grid[-1].xaxis.set_minor_formatter(NullFormatter())
    handles = [
        grid[0].plot([], [], _marker(beam, beams), color="grey", label=f"beam {beam}")[0]
        for beam in beams
    ]
    figure.legend(handles=handles, loc="outside upper right", ncols=len(beams))
    return figure


def _family(point):
    return point["engine"].partition(" ")[0]


def _color(point, families):
    return _COLORS[families.index(_family(point)) % len(_COLORS)]


def _marker(beam, beams):
    return _MARKERS[beams.index(beam) % len(_MARKERS)]


def _set_heights(axes: Axes, scores: Sequence[float]) -> None:
    """Leaves space around all scores, and at least 2 BLEU, so that noise does not look large."""
    center, half = (min(scores) + max(scores)) / 2, max(1.0, 0.65 * (max(scores) - min(scores)))
    axes.set_ylim(center - half, center + half)


def _draw_engine(axes, row, beams, families):
    color = _color(row[0], families)
    axes.plot(
        [point["words_per_second"] for point in row],
        [point["bleu"] for point in row],
        color=color,
        alpha=0.4,
    )
    for point in row:
        axes.plot(
            point["words_per_second"],
            point["bleu"],
            _marker(point["beam_size"], beams),
            color=color,
        )


def _draw_names(axes: Axes, own: Sequence[Mapping[str, Any]], families: list[str]) -> None:
    """Writes the engines' names right of the panel, in the order of their points, with lines."""
    first = {}
    for point in sorted(own, key=lambda point: point["beam_size"]):
        first.setdefault(point["engine"], point)
    points = sorted(first.values(), key=lambda point: (point["bleu"], -point["words_per_second"]))
    lowest, highest = axes.get_ylim()
    heights = [(point["bleu"] - lowest) / (highest - lowest) for point in points]
    for point, height in zip(points, spread(heights, _NAME_HEIGHT), strict=True):
        color = _color(point, families)
        axes.annotate(
            point["engine"],
            (point["words_per_second"], point["bleu"]),
            xytext=(1.03, height),
            textcoords="axes fraction",
            va="center",
            fontsize=_FONT_SIZE,
            color=color,
            arrowprops=dict(
                arrowstyle="-", color=color, lw=0.6, ls=":", shrinkA=0, shrinkB=3, relpos=(0, 0.5)
            ),
        )


def spread(heights: Sequence[float], distance: float) -> list[float]:
    """Moves heights apart, as little as possible around the mean of those that touch.

    Args:
        heights: ascending heights.
        distance: the smallest distance of neighbours afterwards.

    Returns:
        Ascending heights; groups of touching ones keep their mean.
    """
    groups: list[list[float]] = []  # of the heights that touch
    for height in heights:
        groups.append([height])
        while len(groups) > 1 and _bottom(groups[-1], distance) < _top(groups[-2], distance):
            groups[-2:] = [groups[-2] + groups[-1]]
    return [
        _bottom(group, distance) + distance * (index + 0.5)
        for group in groups
        for index in range(len(group))
    ]


def _bottom(group, distance):
    return sum(group) / len(group) - distance * len(group) / 2


def _top(group, distance):
    return sum(group) / len(group) + distance * len(group) / 2
