"""The encoder-decoder model as a backbone of KerasHub."""

import dataclasses
import os
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

import keras
import keras_hub
from keras import ops

from tf_transformer.errors import InputError
from tf_transformer.hub.lora import (
    ATTENTION_INPUTS,
    check_lora_arguments,
    freeze_biases,
    has_lora,
    merge_lora,
    read_lora,
    read_rank_and_layers,
    write_lora,
)
from tf_transformer.hub.presets import KERAS_ARGUMENTS, check_preset, checked_dtype
from tf_transformer.layers.dense import Projection
from tf_transformer.layers.masks import check_padding_mask
from tf_transformer.models.transformer import Transformer
from tf_transformer.printable import shown
from tf_transformer.storage.model_dir import config_from_settings
from tf_transformer.storage.weights_file import read_model_weights, write_model_weights
from tf_transformer.text.special_ids import PAD_ID


class _HiddenStates(keras.layers.Layer):
    """Computes the outputs of encoder and decoder from the inputs of a `TransformerBackbone`."""

    def __init__(self, transformer: Transformer, **kwargs: Any):
        super().__init__(dtype=transformer.dtype_policy, **kwargs)
        self.transformer = transformer
        self.built = True

    def call(self, inputs, training=None):
        ids = {
            "source": ids_of_side(inputs, "encoder"),
            "target": ids_of_side(inputs, "decoder"),
        }
        memory, hidden = self.transformer.hidden_states(ids, training)
        return {"encoder_sequence_output": memory, "decoder_sequence_output": hidden}


def check_dtypes(inputs: Any) -> None:
    """Checks that ids are integers, and padding masks integers or boolean; Keras would cast them.

    Args:
        inputs: the dictionary of inputs of a `TransformerBackbone`.

    Raises:
        InputError: an input has another dtype.
    """
    for name, tensor in inputs.items() if isinstance(inputs, Mapping) else ():
        dtype = keras.backend.standardize_dtype(tensor.dtype)
        if not dtype.startswith(("int", "uint")) and (dtype, name[8:]) != ("bool", "padding_mask"):
            raise InputError(f"`{name}` must be integers. Received: {dtype}")


def ids_of_side(inputs: Mapping[str, Any], side: str) -> Any:
    """Returns the ids of a side, with the pad id wherever the padding mask is 0.

    Args:
        inputs: the token ids and the padding mask of the side, `(batch, length)` each.
        side: "encoder" or "decoder".

    Raises:
        InputError: the padding mask has another shape than the ids.
    """
    ids = ops.convert_to_tensor(inputs[f"{side}_token_ids"])
    is_real = ops.cast(inputs[f"{side}_padding_mask"], "bool")
    check_padding_mask(is_real, ids.shape)
    return ops.where(is_real, ids, PAD_ID)


@keras.saving.register_keras_serializable(package="tf_transformer")
class TransformerBackbone(keras_hub.models.Backbone):
    """A `Transformer` with the interface of KerasHub's backbones.

        backbone = TransformerBackbone(
            source_vocab_size=8000, target_vocab_size=8000, num_encoder_layers=4, d_model=256, ...
        )
        backbone = TransformerBackbone.from_preset("preset")

    Inputs and outputs have the names of KerasHub's encoder-decoder models. Differences:

    - The special ids are 0 for padding, 1 unknown, 2 begin and 3 end. The encoder's input ends with
      the end id and has no begin id.
    - Padding is what either the mask or the pad id says.
    - All weights belong to the backbone, those of the logits too, so a preset has no
      `task.weights.h5`.
    - `model.weights.h5` is one file of any size that contains the weights by name, as a model
      directory does, and not in the layout of `keras.Model.save_weights`.
    - A mixed dtype policy is not stored: give `dtype="mixed_bfloat16"` to `from_preset` again.

    LoRA: queries, keys and values have one kernel W here. `enable_lora(rank)` thus learns W + A B
    for all three of them, in self-attention ("query_key_value") and in cross-attention ("query" and
    "key_value"), where KerasHub's models adapt queries and values. Biases are frozen, so that
    `save_lora_weights` saves everything that is trained. Whatever saves or converts the whole model
    merges A B into W.

    A preset that somebody else made is data: `from_preset` of this class and of the task checks the
    sizes in `config.json` and in the weights file before it allocates memory, then names and shapes
    of the weights, and that they are finite. It does not run KerasHub's loader on other classes
    than this package's. Called on a class of KerasHub, or with the name of a model hub,
    `from_preset` reads JSON files of any size and allocates the memory of the model before it looks
    at the weights file; all other checks are the same.

    Args:
        name: name of the backbone.
        trainable: whether the weights can be trained.
        dtype: dtype or dtype policy.
        **settings: the fields of `TransformerConfig`.

    Call arguments:
        inputs: dictionary of int32 `encoder_token_ids` and `encoder_padding_mask`,
            `(batch, source_length)`, `decoder_token_ids` and `decoder_padding_mask`,
            `(batch, target_length)`.
        training: True applies dropout.

    Returns:
        Dictionary of `encoder_sequence_output`, `(batch, source_length, d_model)`, and
        `decoder_sequence_output`, `(batch, target_length, d_model)`.

    Attributes:
        transformer: the `Transformer` with the weights.

    Raises:
        InputError: a setting is unknown or invalid, or the model is decoder-only.
    """

    transformer: Transformer

    def __init__(self, **settings: Any):
        arguments = {name: settings.pop(name) for name in KERAS_ARGUMENTS if name in settings}
        config = config_from_settings(settings, "TransformerBackbone")
        if config.decoder_only:
            raise InputError(
                "A `TransformerBackbone` has an encoder and a decoder. Use a `LanguageModel`. "
                "Received: decoder_only=True"
            )
        transformer = Transformer(config, dtype=arguments.get("dtype"), name="transformer")
        # KerasHub sets layers before it makes the functional model.
        self.transformer = transformer
        self.token_embedding = transformer.target_embedding
        inputs = {
            f"{side}_{part}": keras.Input((None,), dtype="int32", name=f"{side}_{part}")
            for side in ("encoder", "decoder")
            for part in ("token_ids", "padding_mask")
        }
        outputs = _HiddenStates(transformer, name="hidden_states")(inputs)
        super().__init__(inputs, outputs, **arguments)

    def call(self, inputs, training=None, mask=None, **options):
        check_dtypes(inputs)
        return super().call(inputs, training=training, mask=mask, **options)

    def get_config(self):
        self.transformer.check_not_quantized()  # its weights have no description
        # Of a mixed policy, which KerasHub cannot load from a preset, only the weights' dtype.
        policy = keras.DTypePolicy(self.dtype_policy.variable_dtype)
        dtype = {"dtype": keras.dtype_policies.serialize(policy)}
        return super().get_config() | dtype | dataclasses.asdict(self.transformer.config)

    @classmethod
    def from_config(cls, config):
        return cls(**(config | {"dtype": checked_dtype(config.get("dtype"))}))

    @classmethod
    def from_preset(
        cls, preset: str | os.PathLike, load_weights: bool = True, **kwargs: Any
    ) -> "TransformerBackbone":
        """Loads a preset, after the checks that the class describes.

        Args:
            preset: a folder, or a name that KerasHub can download.
            load_weights: False initializes the weights at random.
            **kwargs: `dtype`, and settings of the model to replace.

        Raises:
            InputError: the preset is not one of this class, or a file is missing, damaged, or does
                not fit the others.
        """
        check_preset(preset, load_weights)
        return super().from_preset(os.fspath(preset), load_weights, **kwargs)

    def save_to_preset(self, preset_dir: str | os.PathLike, max_shard_size: Any = None) -> None:
        """Writes a preset.

        Args:
            preset_dir: the folder to write.
            max_shard_size: unused; the weights are one file of any size.
        """
        super().save_to_preset(os.fspath(preset_dir), max_shard_size=None)

    def save_weights(self, filepath: str | os.PathLike, overwrite: bool = True) -> None:
        """Writes the weights by name, as in a model directory; LoRA is merged.

        Args:
            filepath: file to write; must end in `.weights.h5`.
            overwrite: whether to replace an existing file.

        Raises:
            InputError: the name ends differently, the file exists and `overwrite` is False, or the
                model is quantized.
        """
        path = _weights_path(filepath)
        if path.exists() and not overwrite:
            raise InputError(f"{path}: exists already. Give another name, or overwrite=True")
        self.transformer.check_not_quantized()
        is_merged = not has_lora(self.transformer)
        write_model_weights(path, self.transformer if is_merged else self.merged_transformer())

    def load_weights(self, filepath: str | os.PathLike) -> None:
        """Reads weights that `save_weights` wrote, or those of a model directory.

        Args:
            filepath: file to read; must end in `.weights.h5`.

        Raises:
            InputError: the file is missing, damaged, of another model, or has weights that are not
                finite; or LoRA is enabled.
        """
        path = _weights_path(filepath)
        if has_lora(self.transformer):
            raise InputError("Load weights before you enable LoRA, which changes their names")
        try:
            read_model_weights(path, self.transformer)
        except FileNotFoundError as error:
            raise InputError(f"{path}: no such file") from error

    def merged_transformer(self, dtype: Any = None) -> Transformer:
        """Returns a `Transformer` of its own with the same weights, LoRA merged.

        Args:
            dtype: dtype or dtype policy of the new model; None means that of the backbone.

        Raises:
            InputError: the backbone is quantized.
        """
        self.transformer.check_not_quantized()
        return merge_lora(self.transformer, dtype)

    def quantize(self, mode: Any = None, config: Any = None) -> None:
        """Replaces the kernels by integers with a scale per column, as Keras does in `Dense`.

        This saves memory, three quarters of the kernels' with "int8". Embeddings, and logits that
        are tied to them, stay as they are. Keras' product of 8-bit integers is slower on a CPU
        than the one of float32; that of `TransformerSeq2SeqLM.translator(dtype="int8")` is faster.
        A quantized backbone cannot be saved: save it before, and quantize what you load. It can
        learn LoRA weights and save these.

        Args:
            mode: "int8" or "int4".
            config: a `keras.quantizers.QuantizationConfig` instead of a mode.

        Raises:
            InputError: the mode is another one.
            ValueError: from Keras, if the backbone is quantized already.
        """
        if mode not in ("int8", "int4"):
            raise InputError(f'`mode` must be "int8" or "int4". Received: mode={shown(mode)}')
        # By default, Keras quantizes no subclasses of `Dense`. Without the filter, it warns of all
        # other layers.
        super().quantize(mode, config, filters=_is_projection, type_check=False)

    def default_lora_layer_names(self) -> list[str]:
        return list(ATTENTION_INPUTS)

    def enable_lora(self, rank: int, target_layer_names: Sequence[str] | None = None) -> None:
        """Freezes all weights and adds trainable A B to kernels of this rank.

        A task that has been trained must be compiled again: its optimizer holds other weights.

        Args:
            rank: number of columns of A.
            target_layer_names: names of the layers; None means `default_lora_layer_names()`. Others
                are "output_projection", "inner", "outer" and "logits_projection".

        Raises:
            InputError: `rank` is not a positive integer, LoRA is enabled already, or a name is not
                one of the model.
        """
        names = (
            self.default_lora_layer_names() if target_layer_names is None else target_layer_names
        )
        check_lora_arguments(self.transformer, rank, names)
        super().enable_lora(rank, list(names))
        freeze_biases(self.transformer)

    def save_lora_weights(self, filepath: str | os.PathLike) -> None:
        """Writes A and B of every layer by name, see `hub.lora`."""
        write_lora(_lora_path(filepath), self.transformer)

    def load_lora_weights(self, filepath: str | os.PathLike) -> None:
        """Reads what `save_lora_weights` wrote, and enables LoRA if it is not enabled.

        Args:
            filepath: file to read; must end in `.lora.h5`.

        Raises:
            InputError: the file is missing, damaged, of another model, of another rank or other
                layers than are enabled, or has weights that are not finite.
        """
        path = _lora_path(filepath)
        if not has_lora(self.transformer):
            self.enable_lora(*read_rank_and_layers(path, self.transformer))
        read_lora(path, self.transformer)


def _is_projection(layer):
    return isinstance(layer, Projection)


def _weights_path(filepath):
    return _with_ending(filepath, ".weights.h5")


def _lora_path(filepath):
    return _with_ending(filepath, ".lora.h5")


def _with_ending(filepath, ending):
    path = pathlib.Path(filepath)
    if not path.name.endswith(ending):
        raise InputError(f"`filepath` must end in {ending}. Received: {path}")
    return path
