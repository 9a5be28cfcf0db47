"""The tasks of an exported model, computed in this process."""

import pathlib

import tensorflow as tf
import tensorflow_text  # noqa: F401  registers the tokenizer's operations

from tf_transformer.predictors.local_predictor import LocalPredictor
from tf_transformer.predictors.signature import Signature, TensorSpec
from tf_transformer.storage.saved_model import version_folder

_NAMES = {"float32": "FLOAT", "float64": "DOUBLE"}


class SavedModelPredictor(LocalPredictor):
    """Computes the signatures of a SavedModel.

    Args:
        folder: a version of an exported model, such as `served/1`, or the folder of the versions,
            of which the newest is taken.

    Raises:
        InputError: there is no SavedModel.
    """

    def __init__(self, folder: pathlib.Path):
        folder = version_folder(folder)
        # Kept, since the signatures hold their variables weakly.
        self._loaded = tf.saved_model.load(str(folder))
        signatures = {name: _signature(f) for name, f in self._loaded.signatures.items()}
        super().__init__(f"SavedModel {folder}", signatures)

    def call(self, signature, tensors):
        return self._loaded.signatures[signature](**tensors)


def _signature(function) -> Signature:
    _, inputs = function.structured_input_signature
    return Signature(
        {name: _spec(spec) for name, spec in inputs.items()},
        {name: _spec(spec) for name, spec in function.structured_outputs.items()},
    )


def _spec(spec) -> TensorSpec:
    shape = None if spec.shape.rank is None else tuple(spec.shape.as_list())
    return TensorSpec(f"DT_{_NAMES.get(spec.dtype.name, spec.dtype.name.upper())}", shape)
