"""Sentences with invented weights and searches, for the page of `attention`."""

import numpy as np

from tf_transformer.inference.inspection import InspectedSentence
from tf_transformer.models.states import AttentionWeights
from training.plots.recorded_search import Candidate, SearchTree
from training.report.attention_report import ExplainedSentence

SPECIAL = ["<pad>", "<unk>", "<s>", "</s>"]


def make_sentence(
    source: list[str], target: list[str], layers: int = 2, heads: int = 3, seed: int = 0
) -> ExplainedSentence:
    """Returns a sentence whose tokens attend mostly to those at the same place.

    Args:
        source: tokens without the end.
        target: tokens without the begin.
        layers: number of layers of each side.
        heads: number of heads of each layer.
        seed: that of the weights.
    """
    random = np.random.default_rng(seed)
    sources, targets = [*source, "</s>"], ["<s>", *target]

    def weights(rows, columns, causal=False):
        found = []
        for _ in range(layers):
            logits = random.normal(0, 1, (heads, rows, columns))
            logits += 4 * np.eye(rows, columns)
            if causal:
                logits += np.triu(np.full((rows, columns), -np.inf), 1)
            exponentials = np.exp(logits)
            found.append(exponentials / exponentials.sum(axis=-1, keepdims=True))
        return found

    return ExplainedSentence(
        " ".join(source),
        InspectedSentence(
            sources,
            targets,
            " ".join(target),
            False,
            AttentionWeights(
                weights(len(sources), len(sources)),
                weights(len(targets), len(targets), causal=True),
                weights(len(targets), len(sources)),
            ),
        ),
        make_search(target),
        [" ".join(target), " ".join(target[:-1])],
    )


def make_search(target: list[str]) -> SearchTree:
    """Returns a search with a beam of 2 that finds the target, and the target but its last token.

    Every step has an alternative that the next one drops, and a candidate that it drops itself.
    """
    pieces = [*SPECIAL, *target, "x", "y"]
    other, dropped = len(pieces) - 2, len(pieces) - 1
    best = tuple(range(4, 4 + len(target)))
    steps = []
    for length in range(1, len(target) + 1):
        steps.append(
            [
                Candidate(best[:length], -0.5, -0.5 * length, None, True),
                Candidate((*best[: length - 1], other), -1.0, -0.5 * length - 0.5, None, True),
                Candidate((*best[: length - 1], dropped), -3.0, -0.5 * length - 2.5, None, False),
            ]
        )
    *_, last = steps
    early = Candidate((*best[:-1], 3), -1.0, -0.5 * len(target) - 0.5, -1.5, True)
    last[1] = early
    final = Candidate((*best, 3), -0.5, -0.5 * len(target) - 0.5, -1.25, True)
    steps.append([final])
    live = {ids: 0.0 for ids in ((), *(c.ids for step in steps for c in step))}
    return SearchTree(live, {best: -1.25, best[:-1]: -1.5}, pieces, steps)
