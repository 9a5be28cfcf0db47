"""Charts as SVG elements of a page, in the colours of the page.

Charts have no text from outside: systems and runs are told apart by colour, and the page has the
legend. So matplotlib needs no fonts for their names.
"""

import io
import re
import xml.etree.ElementTree as ET
from collections.abc import Callable, Sequence
from typing import Any

import matplotlib
from markupsafe import Markup
from matplotlib.axes import Axes
from matplotlib.figure import Figure

# Systems or runs that have a colour of their own; page/report.css names them.
NUM_COLORS = 8
_MARKERS = "osD^vPX*"

_SVG = "http://www.w3.org/2000/svg"
_LINK = "{http://www.w3.org/1999/xlink}href"
# Colours that stand for those of the page.
_TEXT, _GRID = "#fd0000", "#fd0001"
_PAGE_COLORS = {_TEXT: "currentColor", _GRID: "var(--border)"} | {
    f"#fe00{number:02x}": f"var(--series-{number + 1})" for number in range(NUM_COLORS)
}
_STYLE: dict[Any, Any] = {
    "svg.fonttype": "none",  # text stays text
    "svg.hashsalt": "",  # names do not change from run to run
    "text.parse_math": False,
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "axes.grid": True,
    "grid.color": _GRID,
    "figure.facecolor": "none",
    "axes.facecolor": "none",
    **{f"{name}.color": _TEXT for name in ("text", "xtick", "ytick")},
    **{f"axes.{name}color": _TEXT for name in ("edge", "label", "title")},
}


def series_color(index: int) -> str:
    """Returns the colour of a system or a run, which the page replaces by its own."""
    return f"#fe00{index % NUM_COLORS:02x}"


def draw_bars(
    title: str,
    groups: Sequence[str],
    series: Sequence[Sequence[float | None]],
    *,
    horizontal: bool = False,
) -> Markup:
    """Draws bars side by side, a group for each title.

    Args:
        title: what is shown, for readers who do not see it.
        groups: titles of the groups.
        series: for each system, a value for each group; None draws no bar.
        horizontal: whether the groups are below each other.
    """

    def draw(axes):
        width = 0.8 / len(series)
        for index, row in enumerate(series):
            places = [group + (index + 0.5) * width - 0.4 for group in range(len(groups))]
            heights = [0 if value is None else value for value in row]
            if horizontal:
                axes.barh(places, heights, width * 0.9, color=series_color(index))
            else:
                axes.bar(places, heights, width * 0.9, color=series_color(index))
        if horizontal:
            axes.set_yticks(range(len(groups)), groups)
            axes.invert_yaxis()
            axes.grid(False, axis="y")
        else:
            axes.set_xticks(range(len(groups)), groups)
            axes.grid(False, axis="x")

    height = 0.4 + len(groups) * max(0.22, 0.11 * len(series)) if horizontal else 2.4
    return _chart(title, draw, (5.2, height))


def draw_points(title: str, groups: Sequence[str], series: Sequence[Sequence[float]]) -> Markup:
    """Draws points above the titles of groups, on an axis that need not begin at 0.

    Args:
        title: what is shown, for readers who do not see it.
        groups: titles of the groups.
        series: for each system, a value for each group.
    """

    def draw(axes):
        for index, row in enumerate(series):
            axes.plot(range(len(groups)), row, _marker(index), color=series_color(index), ls="-")
        axes.set_xticks(range(len(groups)), groups)
        axes.set_xlim(-0.5, len(groups) - 0.5)
        axes.grid(False, axis="x")

    return _chart(title, draw, (5.2, 2.4))


def draw_intervals(title: str, scores: Sequence[tuple[float, float]]) -> Markup:
    """Draws scores with their confidence intervals, one below the other.

    Args:
        title: what is shown, for readers who do not see it.
        scores: for each system, the middle of the interval and half its width.
    """

    def draw(axes):
        for index, (middle, half) in enumerate(scores):
            axes.errorbar(
                middle, index, xerr=half, color=series_color(index), fmt=_marker(index), capsize=4
            )
        axes.set_yticks([])
        axes.set_ylim(len(scores) - 0.4, -0.6)
        axes.spines["left"].set_visible(False)

    return _chart(title, draw, (5.2, 0.5 + 0.24 * len(scores)))


def draw_lines(
    title: str,
    lines: Sequence[tuple[int, Sequence[tuple[int, float]]]],
    *,
    logarithmic: bool = False,
) -> Markup:
    """Draws curves by step.

    Args:
        title: what is shown, for readers who do not see it.
        lines: index of the run, and points of step and value, for each curve.
        logarithmic: whether the values have a logarithmic axis.
    """

    def draw(axes):
        for index, points in lines:
            marker = _marker(index) if len(points) <= 40 else None
            axes.plot(
                *zip(*points, strict=True),
                color=series_color(index),
                marker=marker,
                markersize=3.5,
                linewidth=1.4,
            )
        axes.set_xlabel("step")
        if logarithmic:
            axes.set_yscale("log")
            # The formatters of logarithmic axes write formulas.
            axes.yaxis.set_major_formatter("{x:g}")
            axes.yaxis.set_minor_formatter(_few_minor_ticks)

    return _chart(title, draw, (5.2, 2.6))


def _few_minor_ticks(value, _):
    """Returns the titles of ticks between powers of ten: only those of 2 and 5."""
    return f"{value:g}" if f"{value:e}"[0] in "25" else ""


def _marker(index):
    return _MARKERS[index % len(_MARKERS)]


def _chart(title: str, draw: Callable[[Axes], None], size: tuple[float, float]) -> Markup:
    with matplotlib.rc_context(_STYLE):
        figure = Figure(figsize=size, layout="constrained")
        draw(figure.subplots())
        file = io.StringIO()
        figure.savefig(file, format="svg", metadata={"Date": None})
    return Markup(_as_element(file.getvalue(), title))


def _as_element(svg: str, title: str) -> str:
    """Returns an SVG file as an element of HTML that needs no styles of its own.

    Attributes `style`, which the page's content security policy forbids, become attributes of their
    own names, and the colours those of the page.
    """
    ET.register_namespace("", _SVG)
    root = ET.fromstring(svg)
    for parent in list(root.iter()):
        for child in list(parent):
            if child.tag in (f"{{{_SVG}}}metadata", f"{{{_SVG}}}style"):
                parent.remove(child)
    prefix = re.sub("[^a-z0-9]+", "-", title.lower())
    for element in root.iter():
        _rename(element, prefix)
        for name, value in _declarations(element.attrib.pop("style", "")):
            element.set(name, _PAGE_COLORS.get(value, value))
    for name in ("width", "height", "version"):
        root.attrib.pop(name, None)
    root.set("role", "img")
    root.set("class", "chart")
    label = ET.Element(f"{{{_SVG}}}title")
    label.text = title
    root.insert(0, label)
    return ET.tostring(root, encoding="unicode")


def _rename(element, prefix):
    """Makes the names of an element unique on the page, and those that it refers to."""
    if "id" in element.attrib:
        element.set("id", f"{prefix}-{element.attrib['id']}")
    if _LINK in element.attrib:
        element.set("href", f"#{prefix}-{element.attrib.pop(_LINK)[1:]}")
    if "clip-path" in element.attrib:
        element.set("clip-path", element.attrib["clip-path"].replace("url(#", f"url(#{prefix}-"))


def _declarations(style):
    for declaration in filter(None, map(str.strip, style.split(";"))):
        name, _, value = map(str.strip, declaration.partition(":"))
        if name == "font":  # a family, which the page chooses, and a size
            size = re.search(r"[\d.]+px", value)
            yield "font-size", size[0] if size else "9px"
        elif name != "font-family":
            yield name, value
