"""The order of another toolkit's vocabulary in this project."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from tf_transformer.errors import InputError
from tf_transformer.formats.naming import Edits
from tf_transformer.text.special_ids import BEGIN_ID, PAD_ID

# A bias of the logits of ids that are no output, which the original's softmax does not have. Its
# probability is 0 in float32, and label smoothing adds less than 0.01 nats to the loss.
NO_OUTPUT = -100.0


class VocabularyRows(NamedTuple):
    """The order of a vocabulary: ids 0 to 3 are this project's special ids.

    Attributes:
        rows: the original's row of each id; `original_size` for an id that the original lacks.
        pieces: the pieces from id 4 on.
        original_size: number of the original's ids.
        added: ids that are no outputs of the original: copies of rows with another id, or ids that
            it lacks.
    """

    rows: np.ndarray
    pieces: list[str]
    original_size: int
    added: tuple[int, ...]

    @classmethod
    def of(
        cls, pieces: Sequence[str], *, pad: int | None, unknown: int, begin: int | None, end: int
    ) -> "VocabularyRows":
        """Returns the order of a vocabulary.

        Args:
            pieces: the piece of each of the original's ids.
            pad: the original's id of padding; None if it has none.
            unknown: its id of unknown pieces.
            begin: the id that starts the decoder; it may be one of the others, or None if there is
                none.
            end: its id of the end of a sentence.
        """
        size = len(pieces)
        special = [size if row is None else row for row in (pad, unknown, begin, end)]
        others = [row for row in range(size) if row not in special]
        added = (PAD_ID, BEGIN_ID) if begin in (pad, unknown, end) else ()
        rows = np.array(special + others)
        return cls(rows, [pieces[row] for row in others], size, added)

    @property
    def vocab_size(self) -> int:
        """Number of ids."""
        return len(self.rows)

    def with_pad_as_output(self) -> "VocabularyRows":
        """Returns the order for an original whose logits of the pad id count, as of any other."""
        return self._replace(added=tuple(x for x in self.added if x != PAD_ID))

    def take(self, array: np.ndarray, axis: int = 0) -> np.ndarray:
        """Reorders an axis of `original_size` entries. Ids that the original lacks get zeros.

        Raises:
            InputError: the axis has another number of entries.
        """
        if array.ndim <= axis or array.shape[axis] != self.original_size:
            raise InputError(
                f"expected a row for each of the {self.original_size} entries of the vocabulary, "
                f"got a weight of shape {array.shape}"
            )
        reordered = np.take(array, np.minimum(self.rows, self.original_size - 1), axis)
        lacking = np.flatnonzero(self.rows == self.original_size)
        reordered[(slice(None),) * axis + (lacking,)] = 0
        return reordered

    def bias(self, bias: np.ndarray) -> np.ndarray:
        """Reorders the bias of the logits, `(original_size,)` to `(vocab_size,)`."""
        reordered = np.array(self.take(bias), "float32")
        reordered[list(self.added)] = NO_OUTPUT
        return reordered


def row_edits(source: VocabularyRows, target: VocabularyRows) -> Edits:
    """Returns the edits that reorder embeddings and logits, for `convert_weights`."""
    return {
        "source_embedding/embeddings": source.take,
        "target_embedding/embeddings": target.take,
        "logits_projection/kernel": lambda matrix: target.take(matrix, axis=1),
        "logits_projection/bias": target.bias,
        "logits_bias": target.bias,
    }
