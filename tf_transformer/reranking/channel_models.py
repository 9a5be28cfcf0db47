"""The models of a noisy channel, applied to candidates."""

from collections.abc import Sequence

import numpy as np

from tf_transformer.reranking.candidates import Candidates
from tf_transformer.reranking.model_scores import PairScorer, TextScorer
from tf_transformer.reranking.settings import NoisyChannel
from tf_transformer.storage.trained_models import TrainedModels
from tf_transformer.text.language_tags import without_tags


class ChannelModels:
    """The models of a `NoisyChannel`.

    Args:
        settings: the models to load.
        languages: languages of the sources' vocabulary, whose tags are no part of the text.

    Raises:
        InputError: a model is not valid.
    """

    def __init__(self, settings: NoisyChannel, languages: Sequence[str]):
        self._reverse_tags = settings.reverse_tags
        self._num_source_tags = settings.num_source_tags
        self._languages = languages
        self._reverse = self._language_model = None
        if settings.reverse is not None:
            self._reverse = PairScorer(*settings.reverse.load())
        if settings.language_model is not None:
            model, _, tokenizer = TrainedModels((settings.language_model,)).load()
            self._language_model = TextScorer(model, tokenizer)

    def scores(
        self, lines: Sequence[bytes], candidates: Sequence[Candidates]
    ) -> list[tuple[np.ndarray, np.ndarray]]:
        """Returns log p(x | y) and log p(y) of all candidates; zeros without such a model.

        Args:
            lines: the sentences x, with their tags if they have any.
            candidates: the candidates y of each sentence.

        Returns:
            Two arrays, `(candidates,)` float64, for each sentence.
        """
        texts = [text for found in candidates for text in found.texts]
        reverse, language_model = np.zeros(len(texts)), np.zeros(len(texts))
        if texts and self._reverse is not None:
            reverse = self._reverse(*self._pairs(lines, candidates))
        if texts and self._language_model is not None:
            language_model = self._language_model(texts)
        ends = np.cumsum([len(found.texts) for found in candidates])[:-1]
        return list(zip(np.split(reverse, ends), np.split(language_model, ends), strict=True))

    def _pairs(self, lines, candidates) -> tuple[list[str], list[str]]:
        """Returns the sources and the targets of the reverse model."""
        sources: list[str] = []
        targets: list[str] = []
        for line, found in zip(lines, candidates, strict=True):
            text = line.decode("utf-8", "replace")
            target = without_tags(text, self._languages, self._num_source_tags)
            sources += [self._reverse_tags + text if text.strip() else text for text in found.texts]
            targets += [target] * len(found.texts)
        return sources, targets
