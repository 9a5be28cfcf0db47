"""Drawing the beam search of one sentence as a tree."""

import itertools
from collections.abc import Container, Iterable, Mapping, Sequence
from typing import Any

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from tf_transformer.text.special_ids import END_ID
from training.plots.fonts import font_families
from training.plots.recorded_search import Ids, SearchTree

# Sizes of the picture in inches.
_ROW_HEIGHT, _TITLE_HEIGHT, _LEAST_WIDTH = 0.32, 0.35, 4.0
_GAP, _SCORE_GAP, _SCORE_WIDTH = 0.4, 0.12, 0.4


def draw_search(tree: SearchTree, max_steps: int = 40) -> Figure:
    """Draws the hypotheses as a tree from left to right, the best translation in color.

    A finished hypothesis ends with a node of its own, `</s>`, which has its score.

    Args:
        tree: the result of `record_search`.
        max_steps: number of steps to draw.
    """
    ended = {(*ids, END_ID): score for ids, score in tree.finished.items()}
    nodes = [ids for ids in (*tree.live, *ended) if len(ids) <= max_steps]
    rows = place_nodes(nodes, ended)
    best = next(iter(ended), ())
    labels = {ids: tree.pieces[ids[-1]] if ids else "<s>" for ids in nodes}
    font: dict[str, Any] = dict(fontsize=8, fontfamily=font_families("".join(labels.values())))
    widths = _label_widths(labels.values(), font)
    edges = _column_edges(labels, widths)
    x = [(left + right) / 2 for left, right in itertools.pairwise(edges)]
    # A unit of the axes is an inch.
    width = max(edges[-1] + _SCORE_WIDTH, _LEAST_WIDTH)
    height = _ROW_HEIGHT * (max(rows.values()) + 1)
    figure = Figure(figsize=(width, height + _TITLE_HEIGHT))
    axes = figure.add_axes((0, 0, 1, height / figure.get_figheight()))
    axes.set(xlim=(0, width), ylim=(height, 0))
    axes.set_axis_off()
    for ids in nodes:
        on_best = best[: len(ids)] == ids
        style: dict[str, Any] = dict(color="tab:blue" if on_best else "grey")
        column, y = len(ids), _ROW_HEIGHT * (rows[ids] + 0.5)
        if ids:
            parent = _ROW_HEIGHT * (rows[ids[:-1]] + 0.5)
            axes.plot(
                [x[column - 1], edges[column], edges[column], x[column]], [parent, parent, y, y],
                linewidth=2 if on_best else 0.7, zorder=2 if on_best else 1, **style,
            )  # fmt: skip
        axes.text(
            x[column], y, labels[ids], **style, **font, ha="center", va="center", zorder=3,
            bbox=dict(boxstyle="round,pad=0.2", facecolor="white", edgecolor=style["color"]),
        )  # fmt: skip
        if ids in ended:
            axes.text(
                x[column] + widths[labels[ids]] / 2 + _SCORE_GAP, y, f"{ended[ids]:.2f}", **style,
                fontsize=7, va="center", zorder=3,
            )  # fmt: skip
    axes.set_title("hypotheses in the beam; after </s>, their scores", fontsize=9)
    return figure


def _label_widths(labels: Iterable[str], style: Mapping[str, Any]) -> dict[str, float]:
    """Returns the width of each label in inches."""
    figure = Figure()
    renderer = FigureCanvasAgg(figure).get_renderer()
    return {
        label: figure.text(0, 0, label, **style).get_window_extent(renderer).width / figure.dpi
        for label in set(labels)
    }


def _column_edges(labels: Mapping[Ids, str], widths: Mapping[str, float]) -> list[float]:
    """Returns the edges of the columns in inches, for columns as wide as their widest label."""
    columns = [0.0] * (1 + max(map(len, labels)))
    for ids, label in labels.items():
        columns[len(ids)] = max(columns[len(ids)], widths[label] + _GAP)
    return list(itertools.accumulate(columns, initial=0.0))


def place_nodes(nodes: Iterable[Ids], ended: Mapping[Ids, float]) -> dict[Ids, int]:
    """Places the nodes of a tree in rows, from the top; the column of a node is its length.

    A node and the best of its continuations share a row. Other continuations lie below it, as high
    as there is room: a row can hold several branches, one after the other.

    Args:
        nodes: all nodes, the root `()` among them.
        ended: score of each node that ends a hypothesis. The best continuation is the one with the
            best such score, or else the longest.
    """
    children: dict[Ids, list[Ids]] = {ids: [] for ids in nodes}
    for ids in children:
        if ids:
            children[ids[:-1]].append(ids)
    value: dict[Ids, tuple[float, int]] = {}
    for ids in sorted(children, key=len, reverse=True):
        below = [value[child] for child in children[ids]]
        value[ids] = max([(ended.get(ids, float("-inf")), len(ids)), *below])
        children[ids].sort(key=value.__getitem__, reverse=True)
    return _place_subtree((), children, ended)[0]


def _place_subtree(
    root: Ids, children: Mapping[Ids, Sequence[Ids]], ended: Container[Ids]
) -> tuple[dict[Ids, int], set[tuple[int, int]]]:
    """Places a node and all its continuations.

    Returns:
        The row of each node below that of `root`, and the cells `(row, half column)` that nodes,
        scores and lines take up. Half column 2c has the nodes of column c, 2c - 1 the lines to
        them.
    """
    line = [root]
    while children[line[-1]]:
        line.append(children[line[-1]][0])
    rows = dict.fromkeys(line, 0)
    score = 2 if line[-1] in ended else 0
    cells = {(0, half) for half in range(2 * len(root) - 1, 2 * len(line[-1]) + 1 + score)}
    # From the right, so that no branch lies between a later one and the line to it.
    for parent in reversed(line):
        lowest = 0
        for child in children[parent][1:]:
            child_rows, child_cells = _place_subtree(child, children, ended)
            top = 1
            while any((top + row, half) in cells for row, half in child_cells):
                top += 1
            rows |= {ids: top + row for ids, row in child_rows.items()}
            cells |= {(top + row, half) for row, half in child_cells}
            lowest = max(lowest, top)
        cells |= {(row, 2 * len(parent) + 1) for row in range(1, lowest)}
    return rows, cells
