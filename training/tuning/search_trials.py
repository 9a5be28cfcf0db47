"""Trials of search options: each translates the validation set with a trained model."""

import gc
import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tf_transformer.decoding.search_options import DEFAULT_BEAM_SIZE, DEFAULT_LENGTH_PENALTY
from tf_transformer.predictors.answers import answer
from tf_transformer.predictors.model_predictor import ModelPredictor
from tf_transformer.storage.trained_models import TrainedModels
from tf_transformer.text.language_tags import check_tags
from tf_transformer.text.lines import join_lines
from tf_transformer.text.parallel_text import check_parallel
from tf_transformer.text.text_file import TextFile
from training.evaluation.scores import bleu_and_chrf
from training.tuning.space import Value
from training.tuning.study import Result

if TYPE_CHECKING:  # an optional package
    import optuna


class SearchTrials:
    """The objective of a study of search options: BLEU on the validation set.

    Args:
        models: the model, or the models of an ensemble.
        source: source sentences of the validation set.
        reference: their reference translations.
        sentences: number of sentences to translate, from the start; None translates all.
        bleu_tokenizer: sacreBLEU's name of the tokenizer for BLEU.

    Raises:
        InputError: the texts or a model directory is invalid.
    """

    def __init__(
        self,
        models: TrainedModels,
        source: TextFile,
        reference: TextFile,
        *,
        sentences: int | None = None,
        bleu_tokenizer: str = "13a",
    ):
        check_parallel(source, reference)
        self._loaded = models.load()
        self._bleu_tokenizer = bleu_tokenizer
        self._sources, self._references = (
            list(itertools.islice(text.lines(), sentences)) for text in (source, reference)
        )
        num_tags = self._loaded[0].config.num_tags
        languages = self._loaded[1].languages if self._loaded[1] else []
        check_tags(self._sources, languages, str(source), num_tags)

    def __call__(self, trial: "optuna.Trial", params: dict[str, Value]) -> Result:
        """Translates the validation set with the search options `params`.

        Raises:
            InputError: a score is not finite.
        """
        options: dict[str, Any] = {
            "beam_size": DEFAULT_BEAM_SIZE,
            "length_penalty": DEFAULT_LENGTH_PENALTY,
        }
        predictor = ModelPredictor.of_model(*self._loaded, xla="auto", **(options | params))
        batches = answer(predictor, "translate", {"text": self._sources})
        found = [text for batch in batches for text in batch["translation"]]
        lines = list(map(join_lines, found))
        scores = bleu_and_chrf(lines, self._references, bleu_tokenizer=self._bleu_tokenizer)
        del predictor
        gc.collect()
        return Result(scores.bleu, "complete", _facts(scores, found, self._references))


def _facts(scores: Any, found: Sequence[str], references: Sequence[str]) -> dict[str, Any]:
    lengths = [sum(map(len, texts)) for texts in (found, references)]
    return {
        "bleu": scores.bleu,
        "chrf": scores.chrf,
        "bleu_signature": scores.bleu_signature,
        "length_ratio": round(lengths[0] / max(lengths[1], 1), 4),
    }
