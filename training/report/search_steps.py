"""A recorded beam search as data of a page: the tree, and what each step chose from."""

import math
from typing import Any

from tf_transformer.text.special_ids import END_ID
from training.plots.recorded_search import Ids, SearchTree
from training.plots.search_tree import place_nodes

# What a page can draw; the rows of larger trees take long to place.
MAX_STEPS, _MAX_NODES = 200, 5000


def search_data(tree: SearchTree, beam_size: int) -> dict[str, Any]:
    """Returns the data of a search for JSON.

    Args:
        tree: the recorded search.
        beam_size: width of its beam.

    Returns:
        `nodes`, lists of the index of the node before it, piece, row, log-probability, and score
        or None, the root first; `steps`, for each step lists of the index of the node that is
        extended, piece, log-probabilities of piece and hypothesis, and the index of the new node
        or None; `num_steps`, which may be more; `finished`, lists of length with the end,
        score, log-probability and node or None, best first.
    """
    steps = tree.steps[: min(MAX_STEPS, math.ceil(_MAX_NODES / beam_size))]
    kept = [candidate for step in steps for candidate in step if candidate.is_kept]
    ended = {c.ids: c.score for c in kept if c.score is not None}
    rows = place_nodes([(), *(c.ids for c in kept)], ended)
    index = {ids: number for number, ids in enumerate(((), *(c.ids for c in kept)))}
    nodes: list[list[Any]] = [[None, None, rows[()], 0.0, None]]
    nodes += [
        [
            index[c.ids[:-1]],
            tree.pieces[c.ids[-1]],
            rows[c.ids],
            _rounded(c.log_prob),
            _rounded(c.score),
        ]
        for c in kept
    ]
    return {
        "nodes": nodes,
        "steps": [
            [
                [
                    index[c.ids[:-1]],
                    tree.pieces[c.ids[-1]],
                    _rounded(c.token_log_prob),
                    _rounded(c.log_prob),
                    index.get(c.ids),
                ]
                for c in step
            ]
            for step in steps
        ],
        "numSteps": len(tree.steps),
        "finished": _finished(tree, index),
    }


def _finished(tree: SearchTree, index: dict[Ids, int]) -> list[list[Any]]:
    log_probs = {c.ids: c.log_prob for step in tree.steps for c in step if c.score is not None}
    return [
        [
            len(ids) - tree.num_tags + 1,
            _rounded(score),
            _rounded(log_probs[(*ids, END_ID)]),
            index.get((*ids, END_ID)),
        ]
        for ids, score in tree.finished.items()
    ]


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 5)
