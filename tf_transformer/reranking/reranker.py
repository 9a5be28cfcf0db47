"""Choosing translations among candidates, whatever model they come from."""

from collections.abc import Callable, Sequence

import numpy as np

from tf_transformer.errors import InputError
from tf_transformer.inference.translator import Translation
from tf_transformer.printable import shown
from tf_transformer.reranking.candidates import Candidates
from tf_transformer.reranking.channel_models import ChannelModels
from tf_transformer.reranking.choice import expected_utilities, noisy_channel_scores, ranking
from tf_transformer.reranking.settings import Choice, MinimumBayesRisk
from tf_transformer.text.texts import list_of_texts


class Reranker:
    """Chooses the n best translations of sentences among candidates, see `Choice`.

    Args:
        find_candidates: returns the candidates of sentences, none of which is blank.
        choice: how to choose.
        languages: languages of the sources, whose tags are no part of the text.
        num_best: number of translations to return per sentence.
        num_candidates: number of candidates of a sentence, which need not be different.

    Raises:
        InputError: an argument is out of range, or a model that `choice` names is not valid.
    """

    def __init__(
        self,
        find_candidates: Callable[[Sequence[bytes]], list[Candidates]],
        choice: Choice,
        languages: Sequence[str],
        num_best: int,
        num_candidates: int,
    ):
        if not 1 <= num_best <= num_candidates:
            raise InputError(
                "`num_best` must be between 1 and the number of candidates, "
                f"{num_candidates}. Received: num_best={shown(num_best)}"
            )
        self._find_candidates, self._num_best = find_candidates, num_best
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
        candidates = self._find_candidates(given) if given else []
        scores = self._scores(given, candidates)
        chosen = iter([self._best(*pair) for pair in zip(candidates, scores, strict=True)])
        blank = [Translation("", 0.0, False)]
        return [next(chosen) if line.strip() else blank for line in encoded]

    def _best(self, candidates, scores):
        return [
            Translation(candidates.texts[index], float(scores[index]), candidates.truncated)
            for index in ranking(scores)[: self._num_best]
        ]
