"""Drawing the beam search of one sentence as a tree."""

import dataclasses
from typing import Any

import tensorflow as tf
from matplotlib.figure import Figure

from tf_transformer.decoding.beam_search import StepModel, beam_search
from tf_transformer.decoding.translation_options import TranslationOptions
from tf_transformer.errors import InputError
from tf_transformer.inference.finite_scores import check_scores
from tf_transformer.inference.translator import Translator
from tf_transformer.text.framing import end_and_pad, split_tags
from tf_transformer.text.special_ids import END_ID
from training.plots.fonts import font_families

Ids = tuple[int, ...]


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

    Args:
        tree: the result of `record_search`.
        max_steps: number of steps to draw.
    """
    nodes = sorted(ids for ids in tree.live if len(ids) <= max_steps)
    rows = _rows(nodes)
    best = next(iter(tree.finished), ())
    depth = max(map(len, nodes))
    count = max(rows.values()) + 1
    figure = Figure(figsize=(1.5 + 0.75 * depth, 1.2 + 0.32 * count), layout="constrained")
    axes = figure.subplots()
    families = font_families("".join(tree.pieces[token] for ids in nodes for token in ids))
    for ids in nodes:
        on_best = best[: len(ids)] == ids
        color = "tab:blue" if on_best else "grey"
        if ids:
            axes.plot(
                [len(ids) - 1, len(ids)], [rows[ids[:-1]], rows[ids]],
                color=color, linewidth=2 if on_best else 0.7, zorder=1,
            )  # fmt: skip
        axes.text(
            len(ids), rows[ids], tree.pieces[ids[-1]] if ids else "<s>",
            color=color, fontfamily=families, fontsize=8, ha="center", va="center", zorder=2,
            bbox=dict(boxstyle="round,pad=0.2", facecolor="white", edgecolor=color),
        )  # fmt: skip
        if ids in tree.finished:
            axes.annotate(
                f"  {tree.finished[ids]:.2f}", (len(ids), rows[ids]), xytext=(14, 0),
                textcoords="offset points", fontsize=7, color=color, va="center",
            )  # fmt: skip
    axes.invert_yaxis()
    axes.margins(0.05)
    axes.set_axis_off()
    axes.set_title("hypotheses in the beam; scores of the finished ones", fontsize=9)
    return figure


def _rows(nodes: list[Ids]) -> dict[Ids, float]:
    """Assigns a row to every node: a new one to each leaf, the first child's to each parent."""
    rows: dict[Ids, float] = {}
    children: dict[Ids, list[Ids]] = {ids: [] for ids in nodes}
    for ids in nodes:
        if ids:
            children[ids[:-1]].append(ids)
    next_row = 0
    for ids in nodes:  # sorted, so that the leaves of a subtree get consecutive rows
        if not children[ids]:
            rows[ids] = next_row
            next_row += 1
    for ids in sorted(nodes, key=len, reverse=True):
        if children[ids]:
            rows[ids] = rows[children[ids][0]]
    return rows
