"""The options of searching and sampling: one table from which everything that offers them derives.

Signatures, the client's requests, `translate`, the verification of an export, its README and the
table of docs/serving.md. Importing this needs no TensorFlow.
"""

from typing import NamedTuple

MAX_BEAM_SIZE = 1000
# ((5 + n) / 6)^alpha stays finite for any length.
LARGEST_LENGTH_PENALTY = 10.0
LARGEST_COVERAGE_PENALTY = 1e6

DEFAULT_BEAM_SIZE = 4
DEFAULT_LENGTH_PENALTY = 0.6


class RowOption(NamedTuple):
    """An option that may differ from sentence to sentence.

    Attributes:
        name: also of the input of a signature.
        dtype: "int32", "int64" or "float32".
        unset: the value that stands for "not given".
        means: what `unset` means.
        description: what the option does, in a few words.
        samples: values that a verification tries, in turn.
    """

    name: str
    dtype: str
    unset: int | float
    means: str
    description: str
    samples: tuple[int | float, ...]

    @property
    def default(self) -> str:
        """What leaves the option to the export, for people: the value, and what it means."""
        return f"{'negative' if self.unset < 0 else f'{self.unset:g}'}: {self.means}"


SEARCH_OPTIONS = (
    RowOption(
        "beam_size", "int32", 0, "the exported", "up to the exported width", (0, 1, 2, 3, 4, 5)
    ),
    RowOption(
        "length_penalty",
        "float32",
        -1.0,
        "the exported",
        "alpha of Wu et al., 2016",
        (-0.4, 0.0, 0.4, 0.8),
    ),
    RowOption("max_length", "int32", 0, "from the source", "most tokens", (0, 7, 14)),
    RowOption("min_length", "int32", 0, "none", "fewest tokens", (0, 1, 2, 3, 4)),
    RowOption("no_repeat_ngram", "int32", 0, "none", "no n tokens occur twice", (0, 1, 2, 3)),
    RowOption(
        "coverage_penalty", "float32", 0.0, "none", "beta of Wu et al., 2016", (0.0, 0.2, 0.4)
    ),
)

SAMPLING_OPTIONS = (
    RowOption(
        "temperature",
        "float32",
        0.0,
        "the most probable",
        "divides the logits",
        (0.0, 0.5, 1.0),
    ),
    RowOption("top_k", "int32", 0, "all", "draws among the k most probable", (0, 5, 10, 15)),
    RowOption(
        "top_p", "float32", 0.0, "all", "draws among the most probable of mass p", (0.0, 0.45, 0.9)
    ),
    RowOption(
        "seed", "int64", 0, "seed 0", "the same seed gives the same sample", (0, 1, 2, 3, 4, 5, 6)
    ),
)
