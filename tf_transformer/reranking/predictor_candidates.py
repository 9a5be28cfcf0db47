"""Candidate translations by the tasks of a predictor: the n best of a beam, or samples."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from tf_transformer.predictors.answers import answer
from tf_transformer.predictors.predictor import Predictor
from tf_transformer.reranking.candidates import (
    Candidates,
    candidates_of_beam,
    candidates_of_samples,
    seeds_of,
)
from tf_transformer.reranking.settings import MinimumBayesRisk
from tf_transformer.tasks.nbest import NO_SCORE


def beam_candidates(
    predictor: Predictor,
    lines: Sequence[bytes],
    search: Mapping[str, Any],
    needed_by: str = "",
) -> Iterator[Candidates]:
    """Yields the hypotheses of the beam of each sentence, see `candidates_of_beam`.

    Args:
        predictor: the model.
        lines: the sentences, none of them blank.
        search: search options by name, of which `length_penalty` must be given.
        needed_by: what the candidates are for, for error messages.

    Raises:
        InputError: as `answer`.
        OSError: as `answer`.
    """
    outputs = ("translations", "scores", "num_tokens", "truncated")
    batches = answer(
        predictor, "nbest", {"text": lines}, search, outputs=outputs, needed_by=needed_by
    )
    for batch in batches:
        for texts, scores, lengths, truncated in zip(*(batch[x] for x in outputs), strict=True):
            given = np.array(scores, np.float64)
            given = np.where(given <= NO_SCORE, -np.inf, given)
            alpha = search["length_penalty"]
            yield candidates_of_beam(texts, given, np.array(lengths), alpha, truncated)


def sampled_candidates(
    predictor: Predictor, lines: Sequence[bytes], settings: MinimumBayesRisk
) -> Iterator[Candidates]:
    """Yields the samples of each sentence, see `candidates_of_samples`.

    They depend on the seed and on the sentence, not on the others.

    Args:
        predictor: the model.
        lines: the sentences, none of them blank.
        settings: the number of samples and how they are drawn.

    Raises:
        InputError: as `answer`.
        OSError: as `answer`.
    """
    number = settings.num_samples or 1
    inputs = {
        "text": [line for line in lines for _ in range(number)],
        "seed": np.concatenate([seeds_of(line, settings.seed, number) for line in lines]).tolist(),
    }
    options = {"temperature": settings.temperature}
    if settings.epsilon is None:
        task, options["top_p"] = "sample", settings.top_p or 0.0
    else:
        task, options["epsilon"] = "sample_epsilon", settings.epsilon
    columns: dict[str, list] = {"translation": [], "log_prob": [], "truncated": []}
    for batch in answer(predictor, task, inputs, options, needed_by="--mbr-samples"):
        for name, column in columns.items():
            column += batch[name]
    for start in range(0, len(inputs["text"]), number):
        texts, log_probs, truncated = (x[start : start + number] for x in columns.values())
        yield candidates_of_samples(texts, np.array(log_probs, np.float64), truncated[0])
