"""How to choose among candidate translations. This module does not import TensorFlow."""

import dataclasses
import pathlib
from typing import TYPE_CHECKING, Any

from tf_transformer.errors import InputError

if TYPE_CHECKING:  # `--help` must not import SentencePiece
    from tf_transformer.storage.trained_models import TrainedModels

UTILITIES = ("chrf", "bleu")
# The probability below which tokens are not drawn (Freitag et al., 2023).
DEFAULT_EPSILON = 0.02
DEFAULT_TEMPERATURE = 1.0
DEFAULT_SEED = 1


@dataclasses.dataclass(frozen=True, kw_only=True)
class MinimumBayesRisk:
    """Takes the translation that is most similar to all candidates (see `expected_utilities`).

    Args:
        utility: the similarity, "chrf" or "bleu".
        tokenizer: sacreBLEU's name of the tokenizer, for "bleu".
        num_samples: number of samples that are the candidates; None takes the n best of the search.
        temperature: of the samples, see `SamplingOptions`.
        top_p: of the samples, in place of `epsilon`; None draws from all tokens.
        epsilon: of the samples; None draws from all tokens.
        seed: of the samples.

    Raises:
        InputError: both `top_p` and `epsilon` are given.
    """

    utility: str = "chrf"
    tokenizer: str = "13a"
    num_samples: int | None = None
    temperature: float = DEFAULT_TEMPERATURE
    top_p: float | None = None
    epsilon: float | None = DEFAULT_EPSILON
    seed: int = DEFAULT_SEED

    def __post_init__(self):
        if self.top_p is not None and self.epsilon is not None:
            raise InputError(
                "`top_p` and `epsilon` draw samples in different ways; give one of them. Received: "
                f"top_p={self.top_p}, epsilon={self.epsilon}"
            )

    @property
    def option(self) -> str:
        """The option of commands that chooses so."""
        return "--mbr"

    @property
    def directories(self) -> tuple[pathlib.Path, ...]:
        """The model directories that are read."""
        return ()

    def num_candidates(self, beam_size: int) -> int:
        """Returns the number of candidates of each sentence, which need not be different."""
        return beam_size if self.num_samples is None else self.num_samples

    def facts(self) -> dict[str, Any]:
        """Returns what the choice depends on, as JSON values."""
        facts: dict[str, Any] = {"mbr": self.utility}
        if self.utility == "bleu":
            facts["tokenizer"] = self.tokenizer
        if self.num_samples is not None:
            names = ("num_samples", "temperature", "top_p", "epsilon", "seed")
            facts |= {name: getattr(self, name) for name in names}
        return facts


@dataclasses.dataclass(frozen=True, kw_only=True)
class NoisyChannel:
    """Takes the candidate with the best sum of the scores of several models.

    See `noisy_channel_scores`.

    Args:
        reverse: a model that translates in the other direction, or an ensemble, or None.
        reverse_weight: weight of its log-probability of the source given the candidate.
        reverse_tags: the language tags that the reverse model's sources need, each with a space.
        language_model: directory of a language model of the target language, or None.
        language_model_weight: weight of its log-probability of the candidate.
        num_source_tags: number of language tags of the sources to translate, which are not part of
            the text that the reverse model scores.
    """

    reverse: "TrainedModels | None" = None
    reverse_weight: float = 0.0
    reverse_tags: str = ""
    language_model: pathlib.Path | None = None
    language_model_weight: float = 0.0
    num_source_tags: int = 0

    def num_candidates(self, beam_size: int) -> int:
        """Returns the number of candidates of each sentence, which need not be different."""
        return beam_size

    @property
    def option(self) -> str:
        """The option of commands that chooses so."""
        return "--rerank-lm" if self.reverse is None else "--rerank-reverse"

    @property
    def weights(self) -> tuple[float, float]:
        """The weights of the reverse and the language model."""
        return self.reverse_weight, self.language_model_weight

    @property
    def directories(self) -> tuple[pathlib.Path, ...]:
        """The model directories that are read."""
        reverse = self.reverse.directories if self.reverse else ()
        return (*reverse, *((self.language_model,) if self.language_model else ()))

    def facts(self) -> dict[str, Any]:
        """Returns what the choice depends on, as JSON values; reads the weights.

        Raises:
            InputError: weights are missing or damaged.
        """
        from tf_transformer.storage.model_dir import weights_digest

        facts: dict[str, Any] = {}
        if self.reverse is not None:
            facts["reverse_weights_digest_blake2b"] = self.reverse.digest()
            facts["reverse_weight"] = self.reverse_weight
            facts["reverse_tags"] = self.reverse_tags
        if self.language_model is not None:
            facts["language_model_weights_digest_blake2b"] = weights_digest(self.language_model)
            facts["language_model_weight"] = self.language_model_weight
        return facts


Choice = MinimumBayesRisk | NoisyChannel
