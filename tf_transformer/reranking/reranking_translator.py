"""Translation that chooses among candidates by another criterion than the model's score."""

from collections.abc import Sequence
from typing import Any

from tf_transformer.decoding.search_options import DEFAULT_BEAM_SIZE
from tf_transformer.inference.compiling_translator import CompilingTranslator
from tf_transformer.inference.translator import Translation
from tf_transformer.models.base import DecoderModel
from tf_transformer.models.ensemble import Ensemble
from tf_transformer.reranking.candidates import Candidates, Sampler, beam_candidates
from tf_transformer.reranking.reranker import Reranker
from tf_transformer.reranking.settings import Choice, MinimumBayesRisk
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
        self._sampler: Sampler | None = None
        if isinstance(choice, MinimumBayesRisk) and choice.num_samples is not None:
            self._sampler = Sampler(self, choice)
        languages, number = self.source_tokenizer.languages, choice.num_candidates(beam_size)
        self._reranker = Reranker(self.candidates, choice, languages, num_best, number)

    def candidates(self, lines: Sequence[bytes]) -> list[Candidates]:
        """Returns the candidates of sentences, none of which is blank.

        Raises:
            InputError: a score is not finite.
        """
        if self._sampler is None:
            return beam_candidates(self, lines)
        return self._sampler.candidates(lines)

    def translate_batch(self, lines: Sequence[str | bytes]) -> list[list[Translation]]:
        """Translates sentences in one batch, see `Reranker.translate_batch`."""
        return self._reranker.translate_batch(lines)


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
