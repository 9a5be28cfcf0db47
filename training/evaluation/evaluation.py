"""Evaluating a model on a test set: its translations, their scores, and the perplexity."""

import functools
import logging
import math
from collections.abc import Callable, Sequence
from typing import Any

from tf_transformer.command_line.progress import progress_bar
from tf_transformer.decoding.search_options import DEFAULT_SEARCH
from tf_transformer.errors import InputError
from tf_transformer.inference.finite_scores import check_scores
from tf_transformer.losses.metrics import Perplexity
from tf_transformer.models.base import DecoderModel
from tf_transformer.models.ensemble import Ensemble
from tf_transformer.predictors.answers import answer
from tf_transformer.predictors.model_predictor import ModelPredictor
from tf_transformer.predictors.predictor import Predictor
from tf_transformer.reranking.reranker import Reranker
from tf_transformer.reranking.settings import Choice
from tf_transformer.storage.trained_models import TrainedModels
from tf_transformer.tasks.table import TASKS
from tf_transformer.text.lines import join_lines
from tf_transformer.text.text_file import TextFile
from training.config import DataConfig
from training.data.change_detection import ChangeDetector
from training.data.pipeline import ParallelText
from training.evaluation.measures import PERPLEXITY, Measures, make_measures
from training.evaluation.provenance import describe_now, describe_text
from training.evaluation.result import Evaluation
from training.evaluation.robustness import score_perturbed
from training.evaluation.scores import bleu_and_chrf
from training.evaluation.settings import EvaluationTexts, SearchSettings
from training.evaluation.significance import compare_systems
from training.metrics.metric import Score

_log = logging.getLogger(__name__)


def evaluate(
    models: TrainedModels,
    texts: EvaluationTexts,
    search: SearchSettings,
    *,
    choice: Choice | None = None,
    measures: Measures | None = None,
    keep: Callable[[list[str]], None] = lambda translations: None,
) -> tuple[Evaluation, list[str]]:
    """Translates the source of a test set and compares the translations with the reference.

    Args:
        models: the model, or the models of an ensemble.
        texts: the test set.
        search: how to translate it.
        choice: how to choose among candidate translations; None takes those of the search.
        measures: what to report; None is the default.
        keep: called with the translations before they are scored, which may fail.

    Returns:
        The scores, and the translations in the order of the source.

    Raises:
        InputError: the test set or the model directory is invalid.
    """
    predictor, languages, origin = load_predictor(models, search)
    num_tags = models.config().num_tags
    return evaluate_predictor(
        predictor,
        origin,
        texts.tagged(languages, num_tags),
        {"beam_size": search.beam_size, "length_penalty": search.length_penalty},
        dtype=search.dtype,
        choice=choice,
        languages=languages,
        measures=measures,
        keep=keep,
    )


def load_predictor(
    models: TrainedModels, search: SearchSettings
) -> tuple[ModelPredictor, list[str], dict[str, Any]]:
    """Loads a model for its evaluation.

    Args:
        models: the model, or the models of an ensemble.
        search: how it translates.

    Returns:
        The predictor, the languages of the tags of its sources, and what identifies it, as JSON
        values.

    Raises:
        InputError: a model directory is invalid.
    """
    options: dict[str, Any] = dict(beam_size=search.beam_size, length_penalty=search.length_penalty)
    calibration, shortlist = search.calibration, search.shortlist
    calibrate = functools.partial(calibration.input_ranges, **options) if calibration else None
    model, source_tokenizer, target_tokenizer, digest = models.load_with_digest(
        search.dtype, calibrate
    )
    predictor = ModelPredictor.of_model(
        model, source_tokenizer, target_tokenizer, **options, shortlist=shortlist, xla=search.xla
    )
    origin = {
        "weights_digest_blake2b": digest,
        **({"members": models.facts()} if models.is_ensemble else {}),
        **({"shortlist_digest_blake2b": shortlist.digest} if shortlist else {}),
        **({"calibration": calibration.facts} if calibration else {}),
    }
    return predictor, source_tokenizer.languages if source_tokenizer else [], origin


def evaluate_predictor(
    predictor: Predictor,
    origin: dict[str, Any],
    texts: EvaluationTexts,
    search: dict[str, Any],
    *,
    dtype: str | None = None,
    choice: Choice | None = None,
    languages: Sequence[str] = (),
    measures: Measures | None = None,
    keep: Callable[[list[str]], None] = lambda translations: None,
) -> tuple[Evaluation, list[str]]:
    """Evaluates a model by its tasks `translate` and `score`.

    Args:
        predictor: the model.
        origin: what identifies it, as JSON values.
        texts: the test set, with the tags that the model needs.
        search: search options by name; without any, those of the model.
        dtype: dtype of the computation; None if only the exported model knows.
        choice: see `evaluate`.
        languages: languages of the tags that the source has.
        measures: see `evaluate`.
        keep: see `evaluate`.

    Returns:
        As `evaluate`; the perplexity is NaN without the task `score`.

    Raises:
        InputError: the test set is invalid, or the model lacks the task `translate`.
        OSError: the translations cannot be had.
    """
    texts.check()
    if choice is not None:
        search = DEFAULT_SEARCH | search
        reranker = Reranker(predictor, choice, search, languages=languages)

    def translate_batches(lines):
        if choice is None:
            for batch in answer(predictor, "translate", {"text": lines}, search):
                yield batch["translation"]
            return
        for start in range(0, len(lines), predictor.batch_size):
            found = reranker.translate_batch(lines[start : start + predictor.batch_size])
            yield [best[0].text for best in found]

    def translate(lines):
        found: list[str] = []
        with progress_bar(total=len(lines), desc="translating", unit=" sentences") as progress:
            for batch in translate_batches(list(lines)):
                found += map(join_lines, batch)
                progress.update(len(batch))
        return found

    sources = list(texts.source.lines())
    references = [list(reference.lines()) for reference in texts.references]
    measures = measures or make_measures(bleu_tokenizer=texts.bleu_tokenizer)
    translations = translate(sources)
    keep(translations)
    scores = {
        name: Score(pair_perplexity(predictor, texts), "")
        if name == PERPLEXITY
        else measures.metrics[name].score(translations, references, texts.plain_sources())
        for name in measures.names
    }
    evaluation = Evaluation(
        measures=measures,
        scores=scores,
        sentences=len(sources),
        beam_size=search.get("beam_size"),
        length_penalty=search.get("length_penalty"),
        dtype=dtype,
        choice=choice.facts() if choice else None,
        origin={**origin, **_describe(texts), **describe_now()},
        comparisons=_compare(translations, references, texts, measures),
        robustness=_score_perturbed(translate, translations, references, texts),
    )
    return evaluation, translations


def pair_perplexity(predictor: Predictor, texts: EvaluationTexts) -> float:
    """Returns exp(mean of -log p) over the tokens of the references, without label smoothing.

    p is the probability of a token given the source and the previous tokens. Pairs that are longer
    than the model's limit or have an empty side are left out.

    Args:
        predictor: the model, whose task `score` is asked; without it, the result is NaN.
        texts: the test set.
    """
    if "score" not in predictor.signatures:
        _log.warning(
            "no perplexity: the %s has no signature 'score'; export it with %s",
            predictor.description,
            TASKS["score"].exported_by,
        )
        return float("nan")
    pairs = [
        pair
        for reference in texts.references
        for pair in zip(texts.source.lines(), reference.lines(), strict=True)
        if all(map(str.strip, pair))
    ]
    if not pairs:
        return float("nan")
    sources, targets = zip(*pairs, strict=True)
    log_prob, num_tokens = 0.0, 0
    for batch in answer(predictor, "score", {"source": sources, "target": targets}):
        for of_pair, number, truncated in zip(
            batch["log_prob"], batch["num_tokens"], batch["truncated"], strict=True
        ):
            log_prob += 0.0 if truncated else of_pair
            num_tokens += 0 if truncated else number
    return math.exp(-log_prob / num_tokens) if num_tokens else float("nan")


def _describe(texts):
    """Returns the texts with their digests, and the test set if it has a name."""
    references = [describe_text(reference) for reference in texts.references]
    return {
        **({"test_set": texts.test_set} if texts.test_set else {}),
        "source": describe_text(texts.source),
        "reference": references[0],
        **({"references": references} if len(references) > 1 else {}),
        **({"systems": [describe_text(x) for x in texts.systems]} if texts.systems else {}),
    }


def _compare(translations, references, texts, measures):
    systems: dict[str, Sequence[str]] = {
        str(system): list(system.lines()) for system in texts.systems
    }
    metrics = measures.compared()
    if not systems or not metrics:
        return []
    _log.info("comparing with %s", ", ".join(systems))
    return compare_systems(
        translations, systems, references, metrics, sources=texts.plain_sources()
    )


def _score_perturbed(translate, translations, references, texts):
    if not texts.perturbations:
        return []
    tokenizer = texts.bleu_tokenizer
    clean = bleu_and_chrf(translations, *references, bleu_tokenizer=tokenizer)
    return score_perturbed(
        translate,
        list(texts.source.lines()),
        references,
        texts.perturbations,
        clean,
        tokenizer,
    )


def evaluate_language_model(models: TrainedModels, text: TextFile, dtype: str = "float32") -> dict:
    """Computes the perplexity per token of a text with a language model.

    Args:
        models: the model.
        text: the text.
        dtype: see `load_for_decoding`.

    Returns:
        The perplexity, and what it was computed from, as plain values.

    Raises:
        InputError: the text or the model directory is invalid, or the model needs a source.
    """
    detector = ChangeDetector(None, text)
    model, source_tokenizer, tokenizer, digest = models.load_with_digest(dtype)
    if source_tokenizer is not None:
        raise InputError(f"{models.directories[0]} holds a translation model; give a --source")
    config = DataConfig(max_length=model.config.max_length)
    corpus = ParallelText(None, text, None, tokenizer, config, detector)
    statistics = corpus.statistics(f"reading {text}")
    dropped = (
        f"{statistics.empty} are empty, {statistics.too_long} longer than the model's limit of "
        f"{config.max_length} tokens"
    )
    if statistics.kept == 0:
        raise InputError(f"{text}: no sentence is left to evaluate: {dropped}")
    if statistics.kept < statistics.pairs:
        _log.warning("%s: %s", text, dropped)
    value = perplexity(model, corpus)
    check_scores([value])
    return {
        "perplexity": value,
        "sentences": statistics.kept,
        "dtype": dtype,
        "weights_digest_blake2b": digest,
        "reference": describe_text(text),
        **describe_now(),
    }


def perplexity(model: DecoderModel | Ensemble, corpus: ParallelText) -> float:
    """Returns the perplexity per token of a language model, see `pair_perplexity`.

    Args:
        model: the model.
        corpus: the text; lines longer than its `max_length` are dropped.

    Returns:
        The perplexity per token; NaN if no line is left.
    """
    metric = Perplexity()
    batches = corpus.batches()
    for inputs, labels in progress_bar(iterable=batches, desc="perplexity", unit=" batches"):
        metric.update_state(labels, model(inputs, training=False))
    return float(metric.result()) if metric.tokens > 0 else float("nan")
