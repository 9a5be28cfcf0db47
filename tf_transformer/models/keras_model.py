"""What Keras' own methods do otherwise for the models of this package."""

import dataclasses
import os
import pathlib
from typing import Any

import keras
from keras import ops

from tf_transformer.config import TransformerConfig
from tf_transformer.errors import InputError
from tf_transformer.layers.kernels import is_tensorflow
from tf_transformer.private_interfaces import strategy_of


class KerasModel(keras.Model):
    """A model of ids whose constructor creates all weights.

    Args:
        config: the model's settings.
        **kwargs: those of `keras.Model`.

    Attributes:
        input_keys: keys of the dictionary of ids, `(batch, length)` each, that `call` takes.
        layer_order: attributes that are layers, in the order in which a batch passes them.

    Raises:
        InputError: `config` is not a `TransformerConfig`, or `dtype` is a quantized policy.
    """

    input_keys: tuple[str, ...] = ("target",)
    layer_order: tuple[str, ...] = ()
    built: bool  # by Keras
    _is_summarized = False

    def __init__(self, config: TransformerConfig, **kwargs: Any):
        if not isinstance(config, TransformerConfig):
            raise InputError(f"`config` must be a TransformerConfig. Received: {config!r}")
        super().__init__(**kwargs)
        if self.quantization_mode is not None:
            raise InputError(
                "`dtype` must be a floating-point policy; Keras' quantized ones are not supported. "
                f"Received: dtype={self.dtype_policy.name!r}"
            )
        self.config = config

    @property
    def layers(self) -> list[keras.layers.Layer]:
        """The layers in the order of their creation, which names the weights in Keras' files."""
        layers = super().layers
        if not self._is_summarized:
            return layers
        order = self.layer_order
        ranks = {id(getattr(self, name, None)): rank for rank, name in enumerate(order)}
        return sorted(layers, key=lambda layer: ranks.get(id(layer), len(order)))

    def summary(self, *arguments: Any, **options: Any) -> None:
        """Prints the layers as a batch passes them, see `keras.Model.summary`."""
        self._is_summarized = True
        try:
            super().summary(*arguments, **options)
        finally:
            self._is_summarized = False

    @property
    def input_shapes(self) -> dict[str, tuple[None, None]]:
        """Shapes of the inputs, for any batch size and length."""
        return {key: (None, None) for key in self.input_keys}

    def build(self, input_shape=None):
        if not self.built:  # the constructor builds the model; Keras may call `build` again
            self._build_layers()
            self.built = True

    def _build_layers(self):
        """Creates the weights of all layers."""
        raise NotImplementedError

    def _resolve_auto_jit_compile(self):
        """Returns whether `compile` turns XLA on by itself: not with TensorFlow.

        Keras would do so on a GPU. XLA compiles the step for every shape of a batch, and batches
        are padded to their longest sentence.
        """
        return not is_tensorflow() and super()._resolve_auto_jit_compile()

    def compute_output_shape(self, input_shape):
        return (*input_shape["target"], self.config.target_vocab_size)

    def save(self, filepath: str | os.PathLike, overwrite: bool = True, **options: Any) -> None:
        """Saves the model as `keras.Model.save` does, for names that end in `.keras`.

        Args:
            filepath: file to write.
            overwrite: whether to replace an existing file without asking.
            **options: those of `keras.Model.save`.

        Raises:
            InputError: the name has another ending, or the model is quantized.
        """
        if pathlib.Path(filepath).suffix in (".h5", ".hdf5"):
            raise InputError(
                "`filepath` must end in .keras: Keras cannot load this model from its HDF5 format. "
                f"Received: {filepath}"
            )
        self.check_not_quantized()
        super().save(filepath, overwrite=overwrite, **options)

    def save_weights(self, filepath: str | os.PathLike, *arguments: Any, **options: Any) -> None:
        """Saves the weights as `keras.Model.save_weights` does.

        Args:
            filepath: file to write.
            *arguments: those of `keras.Model.save_weights`.
            **options: those of `keras.Model.save_weights`.

        Raises:
            InputError: the model is quantized.
        """
        self.check_not_quantized()
        super().save_weights(filepath, *arguments, **options)

    def check_not_quantized(self) -> None:
        """Checks that the model can be saved.

        Raises:
            InputError: the model is quantized.
        """
        if any(weight.dtype == "int8" for weight in self.weights):
            raise InputError(
                "A model with 8-bit products cannot be saved by Keras. Save it before you quantize "
                "it, or use `tf-transformer export --dtype int8`"
            )

    def export(
        self,
        filepath: str | os.PathLike,
        format: str = "tf_saved_model",
        verbose: bool | None = None,
        input_signature: Any = None,
        **kwargs: Any,
    ) -> None:
        """Exports a model from token ids to logits, as `keras.Model.export` does.

        `tf-transformer export` writes a SavedModel that translates text.

        Args:
            filepath: file or directory to write.
            format: "tf_saved_model", or another format of Keras.
            verbose: whether to print a message.
            input_signature: shapes and dtypes of the inputs; None means `input_keys`, each
                `(None, None)` int32.
            **kwargs: options of the format, see `keras.Model.export`.
        """
        if input_signature is None:
            # By default, Keras would take the shapes of the first call, as floats.
            specs = {
                key: keras.InputSpec(shape=shape, dtype="int32", name=key)
                for key, shape in self.input_shapes.items()
            }
            input_signature = [specs]
        super().export(filepath, format, verbose, input_signature, **kwargs)

    def quantize(self, mode: Any = None, config: Any = None, **kwargs: Any) -> None:
        """Raises an error: the quantization of Keras would leave every layer unchanged.

        Raises:
            NotImplementedError: always, with the alternatives.
        """
        raise NotImplementedError(
            f"Keras' `quantize` cannot change the layers of a {type(self).__name__}. Received: "
            f"mode={mode!r}. Use `tf_transformer.quantization.int8.quantize(model)` to decode in "
            "8 bits, or `tf-transformer export --dtype int8`"
        )

    def _maybe_symbolic_build(self, iterator=None, data_batch=None):
        """Builds the optimizer in the strategy's scope; everything else is already built.

        Keras would take a batch of the data and average it over the replicas, which fails on
        several workers, and when the batch does not split evenly.
        """
        strategy = strategy_of(self)
        if strategy is not None and self.optimizer is not None:
            with strategy.scope():
                if not self.optimizer.built:
                    self.optimizer.build(self.trainable_variables)

    def train_step(self, *arguments):
        """Runs `keras.Model.train_step`, also on several workers."""
        return self._averageable(super().train_step(*arguments))

    def test_step(self, *arguments):
        """Runs `keras.Model.test_step`, also on several workers."""
        return self._averageable(super().test_step(*arguments))

    def _averageable(self, logs):
        """Reshapes logs to `(1,)`, the only shape that Keras can average over several workers."""
        strategy = strategy_of(self)
        if strategy is None or strategy.cluster_resolver is None:
            return logs
        return {name: ops.reshape(value, (1,)) for name, value in logs.items()}

    def get_config(self):
        return super().get_config() | {"config": dataclasses.asdict(self.config)}

    @classmethod
    def from_config(cls, config, custom_objects=None):
        config = dict(config)
        return cls(TransformerConfig(**config.pop("config")), **config)
