"""Candidate translations by the tasks `nbest` and `sample` of a SavedModel or a server."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from tf_transformer.errors import InputError
from tf_transformer.predictors.answers import answer
from tf_transformer.predictors.predictor import Predictor
from tf_transformer.reranking.candidates import (
    Candidates,
    candidates_of_beam,
    candidates_of_samples,
    seeds_of,
)
from tf_transformer.reranking.reranker import Reranker
from tf_transformer.reranking.settings import Choice, MinimumBayesRisk
from tf_transformer.tasks.nbest import NO_SCORE

_NEEDED_BY = "--mbr or --rerank"


def predictor_reranker(
    predictor: Predictor,
    choice: Choice,
    search: Mapping[str, Any],
    languages: Sequence[str],
    num_best: int,
) -> Reranker:
    """Returns what chooses translations of a model among its candidates.

    Args:
        predictor: the model.
        choice: how to choose.
        search: `beam_size` and `length_penalty` of the search.
        languages: see `Reranker`.
        num_best: see `Reranker`.

    Raises:
        InputError: as `Reranker`, or the samples would be drawn from the tokens above a
            probability, which the signature `sample` has no input for.
    """
    candidates = _candidates_of(predictor, choice, search)
    num_candidates = choice.num_candidates(search["beam_size"])
    return Reranker(candidates, choice, languages, num_best, num_candidates)


def _candidates_of(predictor, choice, search) -> Callable[[Sequence[bytes]], list[Candidates]]:
    """Returns a function that returns the candidates of sentences, none of which is blank."""
    if not isinstance(choice, MinimumBayesRisk) or choice.num_samples is None:
        return lambda lines: list(_of_beam(predictor, lines, search))
    if choice.epsilon is not None:
        raise InputError(
            "--mbr-samples: an exported model draws from all tokens or by --mbr-top-p; give "
            "--mbr-epsilon 0 or --mbr-top-p"
        )
    return lambda lines: list(_of_samples(predictor, lines, choice))


def _of_beam(predictor, lines, search) -> Iterator[Candidates]:
    outputs = ("translations", "scores", "num_tokens", "truncated")
    batches = answer(
        predictor, "nbest", {"text": lines}, search, outputs=outputs, needed_by=_NEEDED_BY
    )
    for batch in batches:
        for texts, scores, lengths, truncated in zip(*(batch[x] for x in outputs), strict=True):
            given = np.array(scores, np.float64)
            given = np.where(given <= NO_SCORE, -np.inf, given)
            alpha = search["length_penalty"]
            yield candidates_of_beam(texts, given, np.array(lengths), alpha, truncated)


def _of_samples(predictor, lines, choice) -> Iterator[Candidates]:
    number = choice.num_samples
    inputs = {
        "text": [line for line in lines for _ in range(number)],
        "seed": np.concatenate([seeds_of(line, choice.seed, number) for line in lines]).tolist(),
    }
    options = {"temperature": choice.temperature, "top_p": choice.top_p}
    columns: dict[str, list] = {"translation": [], "log_prob": [], "truncated": []}
    for batch in answer(predictor, "sample", inputs, options, needed_by="--mbr-samples"):
        for name, column in columns.items():
            column += batch[name]
    for start in range(0, len(inputs["text"]), number):
        texts, log_probs, truncated = (x[start : start + number] for x in columns.values())
        yield candidates_of_samples(texts, np.array(log_probs, np.float64), truncated[0])
