"""Perturbations of a test set by name. This module does not import TensorFlow."""

import dataclasses
import math

from tf_transformer.errors import InputError
from tf_transformer.known_names import nearest
from tf_transformer.printable import printable
from training.config import NoiseConfig

# What the translation of a perturbed source is compared with.
REFERENCES = {
    "upper": "in upper case",
    "title": "in title case",
    "no_end": "without end punctuation where the source lost it",
    "typos": "unchanged",
    "copies": "with the same tokens",
}
# Every sentence is perturbed; one letter in fifty is a typing error.
_DEFAULT_RATES = dict.fromkeys(REFERENCES, 1.0) | {"typos": 0.02}


@dataclasses.dataclass(frozen=True)
class Perturbation:
    """A kind of noise in every sentence of a test set.

    Args:
        name: a setting of `NoiseConfig`.
        rate: its rate.
    """

    name: str
    rate: float

    @property
    def rates(self) -> NoiseConfig:
        """The settings of this noise alone."""
        return NoiseConfig(**{self.name: self.rate})

    @property
    def reference(self) -> str:
        """What the translations are compared with, in words."""
        return REFERENCES[self.name]

    @classmethod
    def parse(cls, text: str) -> "Perturbation":
        """Parses NAME or NAME=RATE.

        Raises:
            InputError: there is no such perturbation, or the rate is not above 0 and at most 1.
        """
        name, equals, value = text.partition("=")
        if name not in REFERENCES:
            raise InputError(
                f"--perturb {printable(text, 100)}: expected one of {', '.join(REFERENCES)}"
                + nearest(name, REFERENCES)
            )
        try:
            rate = float(value) if equals else _DEFAULT_RATES[name]
        except ValueError:
            rate = math.nan
        if not 0 < rate <= 1:
            raise InputError(
                f"--perturb {printable(text, 100)}: expected a rate above 0 and at most 1, as in "
                f"{name}={_DEFAULT_RATES[name]}"
            )
        return cls(name, rate)

    def __str__(self) -> str:
        return self.name if self.rate == 1 else f"{self.name}={self.rate:g}"


def parse_perturbations(texts: list[str]) -> list[Perturbation]:
    """Parses perturbations, each of which is given once; commas may separate them, too.

    Raises:
        InputError: as `Perturbation.parse`.
    """
    names = [name for text in texts for name in text.split(",")]
    return list(dict.fromkeys(map(Perturbation.parse, names)))
