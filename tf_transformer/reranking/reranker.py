"""Choosing translations among candidates, which a predictor finds."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from tf_transformer.decoding.search_options import DEFAULT_SEARCH
from tf_transformer.errors import InputError
from tf_transformer.inference.translator import Translation
from tf_transformer.predictors.predictor import Predictor
from tf_transformer.printable import shown
from tf_transformer.reranking.candidates import Candidates
from tf_transformer.reranking.channel_models import ChannelModels
from tf_transformer.reranking.choice import expected_utilities, noisy_channel_scores, ranking
from tf_transformer.reranking.predictor_candidates import beam_candidates, sampled_candidates
from tf_transformer.reranking.settings import Choice, MinimumBayesRisk
from tf_transformer.text.texts import list_of_texts


class Reranker:
    """Chooses the n best translations of sentences among candidates of a model, see `Choice`.

    The score of a translation is its expected utility or the sum of several models' scores. All
    translations of a sentence are different, so there may be fewer than `num_best`.

    Args:
        predictor: the model.
        choice: how to choose.
        search: options of the search by name; `beam_size` is the number of hypotheses that are
            candidates. Those that are not given are of `DEFAULT_SEARCH`, also for an exported
            model, which does not say its own: from scores, probabilities are computed by the
            length penalty.
        languages: languages of the sources, whose tags are no part of the text.
        num_best: number of translations to return per sentence.

    Raises:
        InputError: an argument is out of range, or a model that `choice` names is not valid.
    """

    def __init__(
        self,
        predictor: Predictor,
        choice: Choice,
        search: Mapping[str, Any] | None = None,
        *,
        languages: Sequence[str] = (),
        num_best: int = 1,
    ):
        search = DEFAULT_SEARCH | dict(search or {})
        num_candidates = choice.num_candidates(search["beam_size"])
        if not 1 <= num_best <= num_candidates:
            raise InputError(
                "`num_best` must be between 1 and the number of candidates, "
                f"{num_candidates}. Received: num_best={shown(num_best)}"
            )
        self._predictor, self._search, self._choice = predictor, search, choice
        self._num_best = num_best
        self._scores: Callable[[Sequence[bytes], Sequence[Candidates]], list[np.ndarray]]
        if isinstance(choice, MinimumBayesRisk):
            self._scores = lambda lines, candidates: [
                expected_utilities(own, choice.utility, choice.tokenizer) for own in candidates
            ]
        else:
            models = ChannelModels(choice, languages)
            self._scores = lambda lines, candidates: [
                noisy_channel_scores(own, *others, *choice.weights)
                for own, others in zip(candidates, models.scores(lines, candidates), strict=True)
            ]

    def candidates(self, lines: Sequence[bytes]) -> list[Candidates]:
        """Returns the candidates of sentences, none of which is blank.

        Raises:
            InputError: a score is not finite.
        """
        choice = self._choice
        if isinstance(choice, MinimumBayesRisk) and choice.num_samples is not None:
            return list(sampled_candidates(self._predictor, lines, choice))
        return list(beam_candidates(self._predictor, lines, self._search, choice.option))

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
        candidates = self.candidates(given) if given else []
        scores = self._scores(given, candidates)
        chosen = iter([self._best(*pair) for pair in zip(candidates, scores, strict=True)])
        blank = [Translation("", 0.0, False)]
        return [next(chosen) if line.strip() else blank for line in encoded]

    def _best(self, candidates, scores):
        return [
            Translation(candidates.texts[index], float(scores[index]), candidates.truncated)
            for index in ranking(scores)[: self._num_best]
        ]
