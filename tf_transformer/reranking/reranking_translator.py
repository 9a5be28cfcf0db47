"""Translation that chooses among candidates by another criterion than the model's score."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tf_transformer.decoding.search_options import DEFAULT_BEAM_SIZE
from tf_transformer.errors import InputError
from tf_transformer.inference.compiling_translator import CompilingTranslator
from tf_transformer.inference.translator import Translation
from tf_transformer.models.base import DecoderModel
from tf_transformer.models.ensemble import Ensemble
from tf_transformer.printable import shown
from tf_transformer.reranking.candidates import Candidates, Sampler, beam_candidates
from tf_transformer.reranking.channel_models import ChannelModels
from tf_transformer.reranking.choice import expected_utilities, noisy_channel_scores, ranking
from tf_transformer.reranking.settings import Choice, MinimumBayesRisk
from tf_transformer.text.texts import list_of_texts
from tf_transformer.text.tokenizer import Tokenizer


class RerankingTranslator(CompilingTranslator):
    """A `Translator` whose n best translations are chosen among candidates.

    The candidates are all hypotheses of the beam, or samples. The score of a translation is its
    expected utility or the sum of several models' scores, see `Choice`. All translations of a
    sentence are different, so there may be fewer than `num_best`.

    Args:
        model: see `Translator`.
        source_tokenizer: see `Translator`.
        target_tokenizer: see `Translator`.
        choice: how to choose.
        beam_size: see `TranslationSearch`.
        num_best: number of translations to return per sentence, at most the number of candidates.
        **options: the other arguments of `CompilingTranslator`.

    Raises:
        InputError: an argument is out of range, or a model that `choice` names is not valid.
    """

    def __init__(
        self,
        model: DecoderModel | Ensemble,
        source_tokenizer: Tokenizer | None,
        target_tokenizer: Tokenizer,
        *,
        choice: Choice,
        beam_size: int,
        num_best: int = 1,
        **options: Any,
    ):
        # All hypotheses are candidates.
        options |= {"num_best": beam_size, "beam_size": beam_size}
        super().__init__(model, source_tokenizer, target_tokenizer, **options)
        num_candidates = choice.num_candidates(beam_size)
        if not 1 <= num_best <= num_candidates:
            raise InputError(
                "`num_best` must be between 1 and the number of candidates, "
                f"{num_candidates}. Received: num_best={shown(num_best)}"
            )
        self._num_chosen = num_best
        self._sampler: Sampler | None = None
        self._scores: Callable[[Sequence[bytes], Sequence[Candidates]], list[np.ndarray]]
        if isinstance(choice, MinimumBayesRisk):
            if choice.num_samples is not None:
                self._sampler = Sampler(self, choice)
            self._scores = lambda lines, candidates: [
                expected_utilities(own, choice.utility, choice.tokenizer) for own in candidates
            ]
        else:
            models = ChannelModels(choice, self.source_tokenizer.languages)
            self._scores = lambda lines, candidates: [
                noisy_channel_scores(own, *others, *choice.weights)
                for own, others in zip(candidates, models.scores(lines, candidates), strict=True)
            ]

    def candidates(self, lines: Sequence[bytes]) -> list[Candidates]:
        """Returns the candidates of sentences, none of which is blank.

        Raises:
            InputError: a score is not finite.
        """
        if not lines:
            return []
        if self._sampler is None:
            return beam_candidates(self, lines)
        return self._sampler.candidates(lines)

    def translate_batch(self, lines: Sequence[str | bytes]) -> list[list[Translation]]:
        """Translates sentences in one batch.

        Args:
            lines: the sentences.

        Returns:
            Up to `num_best` translations of each sentence, best first; a single, empty one of a
            blank sentence.

        Raises:
            InputError: a score is not finite.
        """
        encoded = [
            line.encode() if isinstance(line, str) else line
            for line in list_of_texts(lines, "lines")
        ]
        given = [line for line in encoded if line.strip()]
        candidates = self.candidates(given)
        scores = self._scores(given, candidates)
        chosen = iter([self._best(*pair) for pair in zip(candidates, scores, strict=True)])
        blank = [Translation("", 0.0, False)]
        return [next(chosen) if line.strip() else blank for line in encoded]

    def _best(self, candidates, scores):
        return [
            Translation(candidates.texts[index], float(scores[index]), candidates.truncated)
            for index in ranking(scores)[: self._num_chosen]
        ]


def make_translator(
    model: DecoderModel | Ensemble,
    source_tokenizer: Tokenizer | None,
    target_tokenizer: Tokenizer,
    *,
    choice: Choice | None,
    beam_size: int = DEFAULT_BEAM_SIZE,
    **options: Any,
) -> CompilingTranslator:
    """Returns a `RerankingTranslator`, or without a choice a `CompilingTranslator`.

    Args:
        model: see `Translator`.
        source_tokenizer: see `Translator`.
        target_tokenizer: see `Translator`.
        choice: how to choose among candidates; None takes the translations of the search.
        beam_size: see `TranslationSearch`.
        **options: the other arguments of the class.

    Raises:
        InputError: as `RerankingTranslator`.
    """
    loaded = (model, source_tokenizer, target_tokenizer)
    if choice is None:
        return CompilingTranslator(*loaded, beam_size=beam_size, **options)
    return RerankingTranslator(*loaded, choice=choice, beam_size=beam_size, **options)
