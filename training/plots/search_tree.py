"""Drawing the beam search of one sentence as a tree."""

import dataclasses
import itertools
from collections.abc import Container, Iterable, Mapping, Sequence
from typing import Any

import tensorflow as tf
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from tf_transformer.decoding.beam_search import beam_search
from tf_transformer.decoding.search_interface import StepModel
from tf_transformer.decoding.translation_options import TranslationOptions
from tf_transformer.errors import InputError
from tf_transformer.inference.finite_scores import check_scores
from tf_transformer.inference.translator import Translator
from tf_transformer.text.framing import end_and_pad, split_tags
from tf_transformer.text.special_ids import END_ID
from training.plots.fonts import font_families

Ids = tuple[int, ...]

# Sizes of the picture in inches.
_ROW_HEIGHT, _TITLE_HEIGHT, _LEAST_WIDTH = 0.32, 0.35, 4.0
_GAP, _SCORE_GAP, _SCORE_WIDTH = 0.4, 0.12, 0.4


@dataclasses.dataclass(frozen=True)
class SearchTree:
    """The hypotheses of a beam search.

    Attributes:
        live: log-probability of every hypothesis that was in the beam at any step, by its ids.
        finished: score of the finished hypotheses, by their ids without the end id; best first.
        pieces: the piece of every id.
    """

    live: dict[Ids, float]
    finished: dict[Ids, float]
    pieces: list[str]


def record_search(translator: Translator, text: str) -> SearchTree:
    """Translates one sentence and records every hypothesis of the beam.

    Raises:
        InputError: the sentence is empty or lacks the language tag that the model needs; or as
            `check_scores`.
    """
    translator.check_tags([text], "text")
    source = translator.source_tokenizer.tokenize(tf.constant([text]))
    source = source[:, : translator.source_limit]
    if source.row_lengths()[0] == 0:
        raise InputError(f"The sentence must contain words. Received: {text!r}")
    num_tags = translator.model.config.num_target_tags
    tags, source = split_tags(source, num_tags)
    options = TranslationOptions.defaults(1) if num_tags else None
    decoder, state, arguments = translator.search.start(
        end_and_pad(source), options, tags if num_tags else None
    )
    beam_size = translator.search.beam_size
    recorder = _Recorder(decoder, translator.model.config.target_vocab_size)
    found = beam_search(
        recorder,
        recorder.start(state, beam_size),
        num_best=beam_size,
        **arguments,
    )
    check_scores(found.scores[:, 0])
    finished = {}
    for ids, length, score in zip(
        found.ids[0].numpy(), found.lengths[0].numpy(), found.scores[0].numpy(), strict=True
    ):
        if score > float("-inf"):
            finished[tuple(ids[:length].tolist())] = float(score)
    given = tuple(tags[0].numpy().tolist())
    # At first, the beam also holds hypotheses without the tags, which are impossible.
    live = {ids: x for ids, x in recorder.live.items() if ids[:num_tags] == given[: len(ids)]}
    return SearchTree(live, finished, translator.target_tokenizer.pieces)


class _Recorder:
    """A `StepModel` that records the hypotheses of its input; for one sentence, in eager mode."""

    def __init__(self, decoder: StepModel, vocab_size: int):
        self.compaction_interval = decoder.compaction_interval
        self._decoder = decoder
        self._vocab_size = vocab_size
        self.live: dict[Ids, float] = {}

    def start(self, state: Any, beam_size: int):
        return {
            "own": state,
            "ids": tf.zeros((1, beam_size, 0), tf.int32),
            "log_probs": tf.zeros((1, beam_size)),
            "next": tf.zeros((1, beam_size, self._vocab_size)),
        }

    def decode_step(self, newest, parents, position, state, return_attention=False):
        ids, log_probs, gained = (
            tf.gather(state[name], parents, batch_dims=1) for name in ("ids", "log_probs", "next")
        )
        ids = tf.concat([ids, newest[:, :, tf.newaxis]], axis=2)
        if position > 0:
            log_probs += tf.gather(gained, newest, batch_dims=2)
        for hypothesis, log_prob in zip(ids[0].numpy(), log_probs[0].numpy(), strict=True):
            # Ended hypotheses remain in the beam, and are never extended.
            if END_ID not in hypothesis:
                self.live[tuple(hypothesis[1:].tolist())] = float(log_prob)
        logits, attention, own = self._decoder.decode_step(
            newest, parents, position, state["own"], return_attention
        )
        after = tf.nn.log_softmax(logits)
        return logits, attention, {"own": own, "ids": ids, "log_probs": log_probs, "next": after}

    def select_rows(self, rows, alive, parents, position, state):
        own = self._decoder.select_rows(rows, alive, parents, position, state["own"])
        return state | {"own": own}


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
