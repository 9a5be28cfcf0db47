"""What every format's reader returns, and the readers' interface."""

import pathlib
from collections.abc import Iterator
from typing import NamedTuple, Protocol

import numpy as np

from tf_transformer.config import TransformerConfig

# The shortlist of an imported model in its model directory.
SHORTLIST_NAME = "shortlist.tsv"


class ImportedModel(NamedTuple):
    """A model of another toolkit, converted.

    Attributes:
        config: the settings of the model.
        source_model: SentencePiece model of the source, with the model's ids.
        target_model: SentencePiece model of the target, with the model's ids.
        weights: name and value of each weight, read and converted one after the other.
        notes: what the user must know to use the model, a sentence each.
        shortlist: lines of a shortlist that `read_shortlist` reads; None if the original has none.
        options: words of the command line of `translate` for the search of the original.
    """

    config: TransformerConfig
    source_model: bytes
    target_model: bytes
    weights: Iterator[tuple[str, np.ndarray]]
    notes: tuple[str, ...] = ()
    shortlist: Iterator[str] | None = None
    options: tuple[str, ...] = ()


class ModelFormat(Protocol):
    """The format of another toolkit's models.

    Attributes:
        name: name of the format in `format_names.IMPORTED`.
    """

    name: str

    def recognizes(self, path: pathlib.Path) -> bool:
        """Returns whether a file or folder looks like a model of this format."""

    def read(self, path: pathlib.Path) -> ImportedModel:
        """Reads a model. All but the values of the weights is checked before it returns.

        Args:
            path: the file or folder.

        Raises:
            InputError: the model is damaged, or has a feature that is not supported.
        """
