"""The order of another toolkit's vocabulary in this project."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from tf_transformer.formats.naming import Edits
from tf_transformer.text.special_ids import BEGIN_ID, PAD_ID

# A bias of the logits of ids that are no output, which the original's softmax does not have. Its
# probability is 0 in float32, and label smoothing adds less than 0.01 nats to the loss.
NO_OUTPUT = -100.0


class VocabularyRows(NamedTuple):
    """The order of a vocabulary: ids 0 to 3 are this project's special ids.

    Attributes:
        rows: the original's row of each id.
        pieces: the pieces from id 4 on.
        original_size: number of the original's ids.
        added: ids that are copies of rows with another id, and thus no outputs of the original.
    """

    rows: np.ndarray
    pieces: list[str]
    original_size: int
    added: tuple[int, ...]

    @classmethod
    def of(
        cls, pieces: Sequence[str], *, pad: int, unknown: int, begin: int, end: int
    ) -> "VocabularyRows":
        """Returns the order of a vocabulary.

        Args:
            pieces: the piece of each of the original's ids.
            pad: the original's id of padding.
            unknown: its id of unknown pieces.
            begin: the id that starts the decoder; it may be one of the others.
            end: its id of the end of a sentence.
        """
        special = [pad, unknown, begin, end]
        others = [row for row in range(len(pieces)) if row not in special]
        added = (PAD_ID, BEGIN_ID) if begin in (pad, unknown, end) else ()
        rows = np.array(special + others)
        return cls(rows, [pieces[row] for row in others], len(pieces), added)

    @property
    def vocab_size(self) -> int:
        """Number of ids."""
        return len(self.rows)

    def bias(self, bias: np.ndarray) -> np.ndarray:
        """Reorders the bias of the logits, `(original_size,)` to `(vocab_size,)`."""
        reordered = np.array(bias[self.rows], "float32")
        reordered[list(self.added)] = NO_OUTPUT
        return reordered


def row_edits(source: VocabularyRows, target: VocabularyRows) -> Edits:
    """Returns the edits that reorder embeddings and logits, for `convert_weights`."""
    return {
        "source_embedding/embeddings": lambda matrix: matrix[source.rows],
        "target_embedding/embeddings": lambda matrix: matrix[target.rows],
        "logits_projection/kernel": lambda matrix: matrix[:, target.rows],
        "logits_projection/bias": target.bias,
        "logits_bias": target.bias,
    }
