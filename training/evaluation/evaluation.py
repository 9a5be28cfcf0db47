"""Evaluating a model on a test set: BLEU, chrF, exact matches and perplexity."""

import dataclasses
import functools
import logging
import math
from collections.abc import Sequence
from typing import Any

from tf_transformer.command_line.progress import progress_bar
from tf_transformer.errors import InputError
from tf_transformer.inference.calibration import Calibration
from tf_transformer.inference.finite_scores import check_scores
from tf_transformer.losses.metrics import Perplexity
from tf_transformer.models.base import DecoderModel
from tf_transformer.models.ensemble import Ensemble
from tf_transformer.reranking.reranking_translator import make_translator
from tf_transformer.reranking.settings import Choice
from tf_transformer.shortlists.table import ShortlistTable
from tf_transformer.storage.trained_models import TrainedModels
from tf_transformer.text.framing import move_tags
from tf_transformer.text.language_tags import (
    check_tags,
    check_untagged,
    find_tags,
)
from tf_transformer.text.lines import join_lines
from tf_transformer.text.parallel_text import check_parallel
from tf_transformer.text.text_file import TextFile
from tf_transformer.text.tokenizer import Tokenizer
from training.config import DataConfig
from training.data.change_detection import ChangeDetector
from training.data.pipeline import ParallelText
from training.evaluation.perturbations import Perturbation
from training.evaluation.provenance import describe_now, describe_text
from training.evaluation.robustness import Robustness, robustness_table, score_perturbed
from training.evaluation.scores import bleu_and_chrf
from training.evaluation.significance import (
    Comparison,
    check_systems,
    compare_systems,
    comparison_table,
)

_log = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True)
class Evaluation:
    """Scores of a model on a test set.

    Args:
        bleu: sacreBLEU's BLEU, from 0 to 100.
        bleu_signature: sacreBLEU's signature of how BLEU was computed.
        chrf: sacreBLEU's chrF, from 0 to 100.
        chrf_signature: sacreBLEU's signature of how chrF was computed.
        exact: share of translations equal to their reference, from 0 to 1.
        perplexity: perplexity per token of the reference, without label smoothing; excludes pairs
            that are longer than the model's limit or have an empty side, and is NaN without pairs.
        sentences: number of sentences in the test set.
        beam_size: beam size of the search.
        length_penalty: length penalty of the search.
        dtype: dtype of the computation, see `load_for_decoding`.
        choice: how translations were chosen among candidates; None if by the search.
        origin: digests of the model's weights, of the shortlist if there was one, of the source and
            of the reference; date and versions.
        comparisons: comparisons with other systems' translations.
        robustness: scores with perturbations.
    """

    bleu: float
    bleu_signature: str
    chrf: float
    chrf_signature: str
    exact: float
    perplexity: float
    sentences: int
    beam_size: int
    length_penalty: float
    dtype: str
    choice: dict | None
    origin: dict
    comparisons: list[Comparison]
    robustness: list[Robustness]

    def as_dict(self) -> dict:
        """Returns all values for JSON; a perplexity that is not finite becomes None."""
        values = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        values["perplexity"] = self.perplexity if math.isfinite(self.perplexity) else None
        if self.choice is None:
            del values["choice"]
        comparisons = [comparison.as_dict() for comparison in values.pop("comparisons")]
        perturbations = [result.as_dict() for result in values.pop("robustness")]
        origin = values.pop("origin")
        return {
            **values,
            **origin,
            **({"comparisons": comparisons} if comparisons else {}),
            **({"perturbations": perturbations} if perturbations else {}),
        }

    def __str__(self) -> str:
        tables = f"\n\n{comparison_table(self.comparisons)}" if self.comparisons else ""
        if self.robustness:
            tables += f"\n\n{robustness_table(self.robustness)}"
        return (
            f"BLEU        {self.bleu:6.2f}   {self.bleu_signature}\n"
            f"chrF        {self.chrf:6.2f}   {self.chrf_signature}\n"
            f"exact       {100 * self.exact:6.2f} % of {self.sentences} sentences\n"
            f"perplexity  {self.perplexity:6.2f}{tables}"
        )


def evaluate(
    models: TrainedModels,
    *,
    source: TextFile,
    reference: TextFile,
    beam_size: int,
    length_penalty: float,
    bleu_tokenizer: str = "13a",
    dtype: str = "float32",
    shortlist: ShortlistTable | None = None,
    calibration: Calibration | None = None,
    systems: Sequence[TextFile] = (),
    target_language: str | None = None,
    source_language: str | None = None,
    xla: str = "off",
    perturbations: Sequence[Perturbation] = (),
    choice: Choice | None = None,
) -> tuple[Evaluation, list[str]]:
    """Translates the source and compares the translations with the reference.

    Args:
        models: the model, or the models of an ensemble.
        source: source sentences of the test set.
        reference: reference translations of the test set.
        beam_size: see `Translator`.
        length_penalty: see `Translator`.
        bleu_tokenizer: sacreBLEU's name of the tokenizer for BLEU.
        dtype: see `load_for_decoding`.
        shortlist: the target pieces to consider, see `Translator`.
        calibration: calibration of "int8", or None.
        systems: translations of the same source by other systems, to compare with.
        target_language: language whose tag is prepended to each source sentence.
        source_language: language of the source, for models whose sources name it.
        xla: whether to compile the search, see `CompilingTranslator`.
        perturbations: noise with which the source is translated again.
        choice: how to choose among candidate translations; None takes those of the search.

    Returns:
        The scores, and the translations in the order of the source.

    Raises:
        InputError: the test set or the model directory is invalid.
    """
    num_sentences = check_parallel(source, reference)
    hypotheses: dict[str, Sequence[str]] = {str(system): list(system.lines()) for system in systems}
    check_systems(hypotheses, num_sentences)
    search: dict[str, Any] = dict(beam_size=beam_size, length_penalty=length_penalty)
    calibrate = functools.partial(calibration.input_ranges, **search) if calibration else None
    model, source_tokenizer, target_tokenizer, digest = models.load_with_digest(dtype, calibrate)
    tokenizers = (source_tokenizer, target_tokenizer)
    source = tagged_source(
        source,
        target_language,
        source_language,
        source_tokenizer,
        num_tags=1 + model.config.num_target_tags,
    )
    translator = make_translator(
        model, *tokenizers, **search, choice=choice, shortlist=shortlist, xla=xla
    )

    def translate(lines):
        found = [best[0] for best in translator.translate_lines(lines, description="translating")]
        check_scores([best.score for best in found])
        return [join_lines(best.text) for best in found]

    sources, references = list(source.lines()), list(reference.lines())
    translations = translate(sources)
    scores = bleu_and_chrf(translations, references, bleu_tokenizer)
    exact = sum(map(str.__eq__, translations, references)) / len(references)
    corpus = ParallelText(
        source, reference, *tokenizers, DataConfig(max_length=model.config.max_length)
    )
    evaluation = Evaluation(
        **scores._asdict(),
        exact=exact,
        perplexity=perplexity(model, corpus),
        sentences=num_sentences,
        beam_size=beam_size,
        length_penalty=length_penalty,
        dtype=dtype,
        choice=choice.facts() if choice else None,
        origin={
            "weights_digest_blake2b": digest,
            **({"members": models.facts()} if models.is_ensemble else {}),
            **({"shortlist_digest_blake2b": shortlist.digest} if shortlist else {}),
            "source": describe_text(source),
            "reference": describe_text(reference),
            **({"calibration": calibration.facts} if calibration else {}),
            **({"systems": [describe_text(system) for system in systems]} if systems else {}),
            **describe_now(),
        },
        comparisons=_compare(translations, hypotheses, references, bleu_tokenizer),
        robustness=score_perturbed(
            translate, sources, references, perturbations, scores, bleu_tokenizer
        ),
    )
    return evaluation, translations


def tagged_source(
    source: TextFile,
    target_language: str | None,
    source_language: str | None,
    tokenizer: Tokenizer | None,
    num_tags: int,
) -> TextFile:
    """Returns the source with the tags of the languages, or checks that it has those it needs.

    Args:
        source: the source.
        target_language: language whose tag to prepend to each sentence, or None.
        source_language: language of the source, for models whose sources name it, or None.
        tokenizer: tokenizer of the source.
        num_tags: number of tags that the model needs.

    Raises:
        InputError: a tag is missing or superfluous.
    """
    languages = tokenizer.languages if tokenizer else []
    if target_language is not None:
        tags = find_tags(target_language, source_language, languages, num_tags)
        for number, line in enumerate(source.lines(), 1):
            check_untagged(line, f"{source}:{number}")
        return dataclasses.replace(source, prefix=tags)
    check_tags(source.lines(), languages, str(source), num_tags)
    return source


def _compare(translations, systems, references, bleu_tokenizer):
    if not systems:
        return []
    _log.info("comparing with %s", ", ".join(systems))
    return compare_systems(translations, systems, references, bleu_tokenizer=bleu_tokenizer)


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
    """Returns exp(mean of -log p) over the target tokens, without label smoothing.

    p is the probability of a token given the source and the previous target tokens.

    Args:
        model: the model.
        corpus: the corpus; pairs longer than its `max_length` are dropped.

    Returns:
        The perplexity per token; NaN if no pair is left.
    """
    metric = Perplexity()
    num_tags = model.config.num_target_tags
    batches = corpus.batches()
    for inputs, labels in progress_bar(iterable=batches, desc="perplexity", unit=" batches"):
        if num_tags:
            inputs, labels = move_tags(inputs, labels, num_tags)
        metric.update_state(labels, model(inputs, training=False))
    return float(metric.result()) if metric.tokens > 0 else float("nan")
