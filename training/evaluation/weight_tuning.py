"""Choosing the weights of a noisy channel on a validation set, by a grid."""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import tabulate
import tqdm

from tf_transformer.predictors.predictor import Predictor
from tf_transformer.reranking.candidates import Candidates
from tf_transformer.reranking.channel_models import ChannelModels
from tf_transformer.reranking.choice import noisy_channel_scores, ranking
from tf_transformer.reranking.predictor_candidates import beam_candidates
from tf_transformer.reranking.settings import NoisyChannel
from tf_transformer.storage.trained_models import TrainedModels
from tf_transformer.text.lines import join_lines
from training.evaluation.evaluation import load_predictor
from training.evaluation.settings import EvaluationTexts, SearchSettings
from training.metrics.bleu_tokenizer import make_bleu

GRID = (0.0, 0.1, 0.2, 0.3, 0.5, 0.7, 1.0, 1.5, 2.0)


class Scored(NamedTuple):
    """The candidates of a sentence with the scores of all models.

    Attributes:
        candidates: the candidates.
        reverse: `(candidates,)`, log p(x | y), zeros without a reverse model.
        language_model: `(candidates,)`, log p(y), zeros without a language model.
    """

    candidates: Candidates
    reverse: np.ndarray
    language_model: np.ndarray


class Weights(NamedTuple):
    """Weights and the BLEU of the translations that they choose.

    Attributes:
        reverse: weight of the reverse model.
        language_model: weight of the language model.
        bleu: BLEU, from 0 to 100.
    """

    reverse: float
    language_model: float
    bleu: float


def tune_on_texts(
    models: TrainedModels, channel: NoisyChannel, texts: EvaluationTexts, search: SearchSettings
) -> list[Weights]:
    """Translates a validation set once, and calls `tune_weights`.

    Args:
        models: the model, or the models of an ensemble.
        channel: the other models; its weights are not used.
        texts: the validation set.
        search: how to translate it; its beam size is the number of candidates.

    Raises:
        InputError: the texts or a model directory is invalid.
    """
    predictor, languages, _ = load_predictor(models, search)
    texts = texts.tagged(languages, num_tags=models.config().num_tags)
    options = {"beam_size": search.beam_size, "length_penalty": search.length_penalty}
    channel_models = ChannelModels(channel, languages)
    lines = list(texts.source.lines())
    return tune_weights(
        scored_candidates(predictor, options, channel_models, lines),
        [list(reference.lines()) for reference in texts.references],
        has_reverse=channel.reverse is not None,
        has_language_model=channel.language_model is not None,
        bleu_tokenizer=texts.bleu_tokenizer,
    )


def scored_candidates(
    predictor: Predictor, search: Mapping[str, Any], models: ChannelModels, lines: Sequence[str]
) -> list[Scored | None]:
    """Returns the n best translations of each sentence with their scores; None for blank ones.

    Args:
        predictor: the model.
        search: see `beam_candidates`.
        models: the models of the noisy channel.
        lines: the sentences.
    """
    scored: list[Scored | None] = []
    for batch in tqdm.tqdm(list(_batches(lines)), unit=" batches", disable=None):
        given = [line.encode() for line in batch if line.strip()]
        candidates = list(beam_candidates(predictor, given, search)) if given else []
        scores = iter(zip(candidates, models.scores(given, candidates), strict=True))
        for line in batch:
            if not line.strip():
                scored.append(None)
                continue
            own, others = next(scores)
            scored.append(Scored(own, *others))
    return scored


def _batches(lines: Sequence[str], size: int = 256) -> Iterator[Sequence[str]]:
    for start in range(0, len(lines), size):
        yield lines[start : start + size]


def tune_weights(
    scored: Sequence[Scored | None],
    references: Sequence[Sequence[str]],
    *,
    has_reverse: bool,
    has_language_model: bool,
    bleu_tokenizer: str = "13a",
) -> list[Weights]:
    """Computes the BLEU of the translations that each pair of weights chooses.

    Args:
        scored: the candidates of each sentence, see `scored_candidates`.
        references: one or more reference translations of the sentences.
        has_reverse: whether there is a reverse model, whose weight to vary.
        has_language_model: whether there is a language model, whose weight to vary.
        bleu_tokenizer: sacreBLEU's name of the tokenizer for BLEU.

    Returns:
        The weights of the grid, in its order.
    """
    bleu = make_bleu(bleu_tokenizer, references=references)
    grids = (GRID if has_reverse else (0.0,), GRID if has_language_model else (0.0,))
    known: dict[tuple[str, ...], float] = {}
    results = []
    for weights in itertools.product(*grids):
        translations = tuple(_chosen(one, *weights) for one in scored)
        if translations not in known:
            known[translations] = bleu.corpus_score(translations, None).score
        results.append(Weights(*weights, known[translations]))
    return results


def _chosen(scored, reverse_weight, language_model_weight) -> str:
    if scored is None:
        return ""
    weights = (reverse_weight, language_model_weight)
    scores = noisy_channel_scores(
        scored.candidates, scored.reverse, scored.language_model, *weights
    )
    return join_lines(scored.candidates.texts[ranking(scores)[0]])


def best_weights(results: Sequence[Weights]) -> Weights:
    """Returns the weights with the highest BLEU; of equal ones, those with the smallest sum."""
    return max(results, key=lambda one: (one.bleu, -one.reverse - one.language_model))


def weights_table(results: Sequence[Weights]) -> str:
    """Returns BLEU as a text table: a row for each weight of the reverse model."""
    columns = sorted({one.language_model for one in results})
    values = {(one.reverse, one.language_model): one.bleu for one in results}
    rows = [
        [f"{row:g}", *(f"{values[row, column]:.2f}" for column in columns)]
        for row in sorted({one.reverse for one in results})
    ]
    head = ["reverse \\ lm", *(f"{column:g}" for column in columns)]
    return tabulate.tabulate(
        rows,
        headers=head,
        tablefmt="plain",
        disable_numparse=True,
        colalign=["right"] * len(head),
    )
