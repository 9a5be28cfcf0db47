"""What the three kinds of predictors have in common."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol

from tf_transformer.predictors.signature import Signature


class Predictor(Protocol):
    """Computes the signatures of a trained model: a model directory, a SavedModel or a server.

    Attributes:
        description: what it is and where, for error messages.
        batch_size: number of rows that are best given at once.
    """

    description: str

    @property
    def batch_size(self) -> int: ...

    @property
    def signatures(self) -> Mapping[str, Signature]:
        """The model's signatures by name.

        Raises:
            InputError: there is no such model.
            OSError: it cannot be read.
        """
        ...

    def refresh_signatures(self) -> Mapping[str, Signature]:
        """Returns the signatures as they are now: a server may have loaded another version.

        Raises:
            InputError: there is no such model.
            OSError: it cannot be read.
        """
        ...

    def predict_batches(
        self,
        inputs: Mapping[str, Sequence],
        signature: str = "serving_default",
        row_numbers: Sequence[int] | None = None,
    ) -> Iterator[dict[str, list]]:
        """Yields the outputs of some rows after the other, in order.

        Args:
            inputs: the signature's inputs by name, with one entry per row.
            signature: name of the signature.
            row_numbers: numbers of the rows in error messages; 1, 2, ... if None.

        Yields:
            The outputs by name, with one entry per row.

        Raises:
            InputError: the signature or an input does not exist, or a row is refused.
            OSError: the outputs cannot be had.
        """
        ...
