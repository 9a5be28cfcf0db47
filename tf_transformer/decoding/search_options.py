"""The table of the options of search and sampling.

The inputs of signatures, the requests of the client, of `translate --server` and of the web page,
the verification of an export, its README and docs/tasks.md derive from it. The options of the
command line are in `command_line.command_options`. This module does not import TensorFlow.
"""

from typing import NamedTuple

MAX_BEAM_SIZE = 1000
# Up to this alpha, ((5 + n) / 6)^alpha is finite for every length.
LARGEST_LENGTH_PENALTY = 10.0
LARGEST_COVERAGE_PENALTY = 1e6

DEFAULT_BEAM_SIZE = 4
DEFAULT_LENGTH_PENALTY = 0.6
# Of the continuation of a text.
DEFAULT_MAX_TOKENS = 100
DEFAULT_SEARCH = {"beam_size": DEFAULT_BEAM_SIZE, "length_penalty": DEFAULT_LENGTH_PENALTY}


class RowOption(NamedTuple):
    """A per-row option: it may differ from sentence to sentence.

    Attributes:
        name: name of the option and of the signatures' input.
        dtype: "int32", "int64" or "float32".
        unset: the value that means "not given": `predictors.answers` fills it in, and
            `TranslationSearch` replaces it by the exported value.
        unset_meaning: what happens then.
        description: what the option does, in a few words.
        samples: values that the verification of an export tries in turn.
        largest: the largest value with an effect of its own; larger ones are clipped to it. None if
            only the model limits it. The smallest is 0.
    """

    name: str
    dtype: str
    unset: int | float
    unset_meaning: str
    description: str
    samples: tuple[int | float, ...]
    largest: int | float | None = None

    @property
    def documented_default(self) -> str:
        """The value that means "not given" and what happens then, for documentation."""
        return f"{'negative' if self.unset < 0 else f'{self.unset:g}'}: {self.unset_meaning}"


_BEAM_SIZE = RowOption(
    "beam_size",
    "int32",
    0,
    "the exported one",
    "beam size, at most the exported one",
    (0, 1, 2, 3, 4, 5),
    MAX_BEAM_SIZE,
)
_LENGTH_PENALTY = RowOption(
    "length_penalty",
    "float32",
    -1.0,
    "the exported one",
    "alpha of Wu et al., 2016",
    (-0.4, 0.0, 0.4, 0.8),
    LARGEST_LENGTH_PENALTY,
)

SEARCH_OPTIONS = (
    _BEAM_SIZE,
    _LENGTH_PENALTY,
    RowOption(
        "max_length", "int32", 0, "derived from the source", "maximum number of tokens", (0, 7, 14)
    ),
    RowOption("min_length", "int32", 0, "none", "minimum number of tokens", (0, 1, 2, 3, 4)),
    RowOption("no_repeat_ngram", "int32", 0, "none", "n; no n-gram occurs twice", (0, 1, 2, 3)),
    RowOption(
        "coverage_penalty",
        "float32",
        0.0,
        "none",
        "beta of Wu et al., 2016",
        (0.0, 0.2, 0.4),
        LARGEST_COVERAGE_PENALTY,
    ),
)

# Of the continuation of a text by a language model.
CONTINUATION_OPTIONS = (
    _BEAM_SIZE,
    _LENGTH_PENALTY,
    RowOption(
        "max_tokens",
        "int32",
        0,
        f"{DEFAULT_MAX_TOKENS}",
        "maximum number of tokens of the continuation",
        (4, 8, 12),
    ),
)

_TEMPERATURE = RowOption(
    "temperature",
    "float32",
    0.0,
    "the most probable token",
    "divides the logits",
    (0.0, 0.5, 1.0),
)
_SEED = RowOption(
    "seed", "int64", 0, "seed 0", "the same seed gives the same sample", (0, 1, 2, 3, 4, 5, 6)
)

SAMPLING_OPTIONS = (
    _TEMPERATURE,
    RowOption(
        "top_k", "int32", 0, "all", "samples from the k most probable tokens", (0, 5, 10, 15)
    ),
    RowOption(
        "top_p",
        "float32",
        0.0,
        "all",
        "samples from the most probable tokens with total probability p",
        (0.0, 0.45, 0.9),
    ),
    _SEED,
)

# Without `top_k` and `top_p`, for which the vocabulary is sorted.
EPSILON_OPTIONS = (
    _TEMPERATURE,
    RowOption(
        "epsilon",
        "float32",
        0.0,
        "all",
        "samples from the tokens with at least this probability",
        (0.0, 0.02, 0.1),
    ),
    _SEED,
)
