"""Several adapters of one model, one chosen for each row of a batch, at decoding.

The product with W is that of the whole batch. Each row adds the update of its adapter, with A and B
looked up by its index:

h = x W + (alpha / rank) x A_i B_i + b

These are two batched products of low rank, by plain operations. Adapter 0 is none, with zeros for A
and B.
"""

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import keras
import numpy as np
from keras import ops

from tf_transformer.errors import InputError
from tf_transformer.models.lora import projections

# For each adapted layer, by name, A times alpha / rank, and B.
Matrices = Mapping[str, tuple[np.ndarray, np.ndarray]]

# The matrix of the logits is read by the scorer and by shortlists, without its layer.
_WITHOUT_ROWS = "logits_projection"


class RowChoice:
    """The adapter of each row, while a part of a graph is traced.

    Attributes:
        names: the adapters' names; that of index i + 1 is `names[i]`.
        indices: `(rows,)` int32, 0 = none, or None: no row has an adapter.
    """

    def __init__(self, names: Sequence[str]):
        self.names = list(names)
        self.indices: Any = None

    def find(self, names: Any) -> Any:
        """Returns the indices of names, `(rows,)` strings to int32; unknown names get 0.

        Args:
            names: the names.
        """
        import tensorflow as tf

        matches = tf.equal(names[:, tf.newaxis], tf.constant(["", *self.names]))
        return tf.argmax(matches, axis=1, output_type=tf.int32)  # 0 without a match


@contextlib.contextmanager
def rows_adapted(model: keras.Model, indices: Any) -> Iterator[None]:
    """Lets a model compute each row with its adapter, in a `with` statement.

    In it, the first axis of the inputs of all layers, or what it consists of, must be the rows.

    Args:
        model: the model; without `adapt_rows` this does nothing.
        indices: `(rows,)` int32, or None or `()` for no adapters.
    """
    choice = row_choice(model)
    if choice is None:
        yield
        return
    former = choice.indices
    choice.indices = None if isinstance(indices, tuple) else indices
    try:
        yield
    finally:
        choice.indices = former


def row_choice(model: keras.Model) -> RowChoice | None:
    """Returns the `RowChoice` of a model with several adapters, or None."""
    return getattr(model, "row_choice", None)


class RowUpdate(keras.layers.Layer):
    """Computes (alpha / rank) x A_i B_i, with the adapter i of each row.

    Args:
        choice: what chooses the adapters.
        a: A of all adapters times alpha / rank, `(adapters, inputs, rank)`.
        b: B of all adapters, `(adapters, rank, outputs)`.
        **kwargs: those of `keras.layers.Layer`.

    Call arguments:
        inputs: `(..., inputs)`, whose rows in sequence are those of the choice, the same number for
            each.

    Returns:
        `(..., outputs)`.
    """

    def __init__(self, choice: RowChoice, a: np.ndarray, b: np.ndarray, **kwargs: Any):
        super().__init__(**kwargs)
        self._choice = choice
        self.a = self.add_weight(shape=a.shape, name="a", initializer="zeros", trainable=False)
        self.b = self.add_weight(shape=b.shape, name="b", initializer="zeros", trainable=False)
        self.a.assign(a)
        self.b.assign(b)
        self.built = True

    @property
    def is_active(self) -> bool:
        """Whether rows have adapters now."""
        return self._choice.indices is not None

    def call(self, inputs):
        indices = self._choice.indices
        rows = ops.reshape(inputs, (ops.shape(indices)[0], -1, inputs.shape[-1]))
        low = ops.matmul(rows, ops.take(self.a, indices, axis=0))
        outputs = ops.matmul(low, ops.take(self.b, indices, axis=0))
        return ops.reshape(outputs, (*ops.shape(inputs)[:-1], self.b.shape[-1]))


def adapt_rows(model: keras.Model, adapters: Mapping[str, Matrices]) -> None:
    """Adds adapters to a model that only decodes, from which `rows_adapted` chooses.

    Args:
        model: the model, whose kernels may be tiled or quantized.
        adapters: the adapters by name.

    Raises:
        InputError: an adapter changes the projection to logits.
    """
    choice = RowChoice(list(adapters))
    changed = {layer for matrices in adapters.values() for layer in matrices}
    if _WITHOUT_ROWS in changed:
        raise InputError(
            f"adapters of {_WITHOUT_ROWS} cannot be chosen by row; export one model for each, with "
            "--adapter"
        )
    for name, layer in projections(model).items():
        if name in changed:
            a, b = _stacked(name, list(adapters.values()))
            layer.add_update(RowUpdate(choice, a, b, dtype=layer.dtype_policy, name="row_update"))
    model.row_choice = choice


def _stacked(name: str, adapters: Sequence[Matrices]) -> tuple[np.ndarray, np.ndarray]:
    """Returns A and B of a layer with zeros for adapter 0, for missing ones and lower ranks."""
    found = {index: of[name] for index, of in enumerate(adapters, 1) if name in of}
    rank = max(a.shape[1] for a, _ in found.values())
    a, b = next(iter(found.values()))
    stacked_a = np.zeros((len(adapters) + 1, a.shape[0], rank), "float32")
    stacked_b = np.zeros((len(adapters) + 1, rank, b.shape[1]), "float32")
    for index, (a, b) in found.items():
        stacked_a[index, :, : a.shape[1]] = a
        stacked_b[index, : b.shape[0]] = b
    return stacked_a, stacked_b
