"""The common part of predictors that compute in this process."""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import tensorflow as tf

from tf_transformer.errors import InputError
from tf_transformer.predictors.rows import check_names, count_rows, to_array, to_rows
from tf_transformer.predictors.signature import Signature

# Rows of similar lengths are decoded together, so that many at once fill their chunks better.
BATCH_SIZE = 256
# How the lines of TensorFlow's messages begin that say where an error happened.
_NO_REASON = ("Graph execution error", "Detected at node", "<stack traces", "\t [[")


class LocalPredictor:
    """Computes signatures in this process.

    Args:
        description: what it is and where, for error messages.
        signatures: the signatures by name.

    Attributes:
        description: see above.
        batch_size: number of rows that are computed together.
        signatures: see above.
    """

    batch_size = BATCH_SIZE

    def __init__(self, description: str, signatures: Mapping[str, Signature]):
        self.description = description
        self.signatures = dict(signatures)

    def refresh_signatures(self) -> Mapping[str, Signature]:
        """Returns the signatures, which never change."""
        return self.signatures

    def predict_batches(
        self,
        inputs: Mapping[str, Sequence],
        signature: str = "serving_default",
        row_numbers: Sequence[int] | None = None,
    ) -> Iterator[dict[str, list]]:
        """Yields the outputs batch by batch, see `Predictor`."""
        num_rows = count_rows(inputs)
        if signature not in self.signatures:
            raise InputError(
                f"the {self.description} has no signature {signature!r}; it has "
                f"{', '.join(self.signatures)}"
            )
        found = self.signatures[signature]
        check_names(inputs, signature, found)
        for start in range(0, num_rows, self.batch_size):
            end = min(start + self.batch_size, num_rows)
            arrays = {
                name: to_array(name, spec, inputs[name][start:end], start)
                for name, spec in found.inputs.items()
            }
            yield {
                name: to_rows(name, found.outputs[name], array, end - start)
                for name, array in self._compute(signature, arrays, row_numbers).items()
                if name in found.outputs
            }

    def _compute(self, signature, arrays, row_numbers) -> dict[str, np.ndarray]:
        """Returns the outputs of a batch."""
        tensors = {name: tf.constant(array) for name, array in arrays.items()}
        try:
            outputs = self.call(signature, tensors)
        except tf.errors.InvalidArgumentError as error:
            raise InputError(f"the {self.description}: {_reason(error.message)}") from error
        return {name: tensor.numpy() for name, tensor in outputs.items()}

    def call(self, signature: str, tensors: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        """Returns the outputs of a signature for its inputs, by name.

        Args:
            signature: name of the signature.
            tensors: the inputs by name.
        """
        raise NotImplementedError

    def close(self) -> None:
        """Does nothing: there is no connection to close."""


def _reason(message: str) -> str:
    """Returns what TensorFlow's message says, without where in the graph that is."""
    lines = [line for line in message.splitlines() if line and not line.startswith(_NO_REASON)]
    return lines[0].strip()[:400] if lines else "refused by the model"
