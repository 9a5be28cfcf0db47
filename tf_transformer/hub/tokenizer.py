"""SentencePiece tokenizers with the interface of KerasHub."""

import os
import pathlib
from typing import Any

import keras
import keras_hub
import tensorflow as tf

from tf_transformer.errors import InputError
from tf_transformer.hub.backbone import TransformerBackbone
from tf_transformer.hub.presets import check_preset, known_entries
from tf_transformer.printable import shown
from tf_transformer.storage.regular_files import read_regular
from tf_transformer.text.special_ids import BEGIN_ID, END_ID, PAD_ID, UNKNOWN_ID
from tf_transformer.text.tokenizer import Tokenizer
from tf_transformer.text.vocabulary import MAX_MODEL_BYTES

_SENTENCEPIECE = "vocabulary.spm"
SOURCE_CONFIG, TARGET_CONFIG = "tokenizer.json", "target_tokenizer.json"


@keras.saving.register_keras_serializable(package="tf_transformer")
class TransformerTokenizer(keras_hub.tokenizers.Tokenizer):
    """This project's `Tokenizer` as a tokenizer of KerasHub.

    The special ids are 0 for padding, 1 unknown, 2 begin and 3 end; `tokenize` adds none of them.
    `TransformerTokenizer.from_preset(DIR)` reads the tokenizer of the source, which is also that of
    the target if the vocabulary is joint; with `config_file="target_tokenizer.json"` that of the
    target in a preset with two.

    Args:
        proto: a serialized SentencePiece model; None if `load_assets` is called later.
        config_file: name of the tokenizer's description in a preset.
        name: name of the layer.

    Raises:
        InputError: `proto` is not a SentencePiece model, or has other special ids; `config_file` is
            unknown.
    """

    backbone_cls = TransformerBackbone

    pad_token_id = PAD_ID
    unk_token_id = UNKNOWN_ID
    start_token_id = BEGIN_ID
    end_token_id = END_ID

    def __init__(
        self,
        proto: bytes | None = None,
        *,
        config_file: str = SOURCE_CONFIG,
        name: str | None = None,
    ):
        if config_file not in (SOURCE_CONFIG, TARGET_CONFIG):
            raise InputError(
                f"`config_file` must be {SOURCE_CONFIG!r} or {TARGET_CONFIG!r}. "
                f"Received: config_file={shown(config_file)}"
            )
        super().__init__(config_file=config_file, name=name)
        self.file_assets = [_SENTENCEPIECE]
        self._loaded = None if proto is None else Tokenizer(proto)

    @property
    def plain(self) -> Tokenizer:
        """This project's tokenizer.

        Raises:
            InputError: there is no vocabulary yet.
        """
        if self._loaded is None:
            raise InputError("The tokenizer has no vocabulary: give `proto`, or load its assets")
        with tf.init_scope():
            try:
                self._loaded.tokenize(tf.constant([""]))
            except tf.errors.NotFoundError:
                # `keras.utils.set_random_seed` has cleared TensorFlow's cache of kernels, which
                # owns the SentencePiece model.
                self._loaded = Tokenizer(self._loaded.model)
        return self._loaded

    @property
    def special_token_ids(self) -> list[int]:
        return [PAD_ID, UNKNOWN_ID, BEGIN_ID, END_ID]

    @property
    def special_tokens(self) -> list[str]:
        return [self.plain.pieces[token_id] for token_id in self.special_token_ids]

    def tokenize(self, inputs: Any) -> Any:
        """Converts strings to ids.

        Args:
            inputs: a string, or `(batch,)` strings.

        Returns:
            int32 ids `(length,)`, or ragged `(batch, (length))`.
        """
        text = tf.convert_to_tensor(inputs, tf.string)
        if text.shape.rank == 0:
            return self.plain.tokenize(text[tf.newaxis])[0]
        return self.plain.tokenize(text)

    def detokenize(self, inputs: Any) -> Any:
        """Converts ids to strings.

        Args:
            inputs: ids `(length,)` or `(batch, length)`, padded or ragged.

        Returns:
            A string, or a list of strings; string tensors in a graph.
        """
        if isinstance(inputs, list | tuple):
            inputs = tf.ragged.constant(inputs, tf.int32)
        elif not isinstance(inputs, tf.RaggedTensor):
            inputs = tf.cast(tf.convert_to_tensor(inputs), tf.int32)
        is_single = inputs.shape.rank == 1
        text = self.plain.detokenize(inputs[tf.newaxis] if is_single else inputs)
        if tf.executing_eagerly():
            text = [line.decode() for line in text.numpy()]
        return text[0] if is_single else text

    def vocabulary_size(self) -> int:
        return self.plain.vocab_size

    def get_vocabulary(self) -> list[str]:
        return list(self.plain.pieces)

    def id_to_token(self, id: int) -> str:
        if not 0 <= id < self.vocabulary_size():
            raise InputError(f"`id` must be one of {self.vocabulary_size()} ids. Received: {id}")
        return self.plain.pieces[id]

    def token_to_id(self, token: str) -> int:
        pieces = self.plain.pieces
        return pieces.index(token) if token in pieces else UNKNOWN_ID

    def save_assets(self, dir_path: str | os.PathLike) -> None:
        pathlib.Path(dir_path, _SENTENCEPIECE).write_bytes(self.plain.model)

    def load_assets(self, dir_path: str | os.PathLike) -> None:
        self._loaded = Tokenizer(
            read_regular(pathlib.Path(dir_path, _SENTENCEPIECE), MAX_MODEL_BYTES)
        )

    @classmethod
    def from_preset(
        cls, preset: str | os.PathLike, config_file: str = SOURCE_CONFIG, **kwargs: Any
    ) -> "TransformerTokenizer":
        """Loads a tokenizer of a preset, after the checks that `TransformerBackbone` describes.

        Args:
            preset: a folder, or a name that KerasHub can download.
            config_file: name of the tokenizer's description.
            **kwargs: arguments of the class to replace.

        Raises:
            InputError: the preset is not one of this package, or a file is damaged.
        """
        check_preset(preset, with_weights=False)
        return super().from_preset(os.fspath(preset), config_file, **kwargs)

    def get_config(self):
        return {"config_file": self.config_file, "name": self.name}

    @classmethod
    def from_config(cls, config):
        return cls(**known_entries(config, ("config_file", "name")))
