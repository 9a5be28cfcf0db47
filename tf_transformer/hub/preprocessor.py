"""Pairs of strings to the inputs of the model, as a preprocessor of KerasHub."""

import os
from collections.abc import Mapping
from typing import Any

import keras
import keras_hub
import tensorflow as tf

from tf_transformer.argument_types import is_whole
from tf_transformer.errors import InputError
from tf_transformer.hub.backbone import TransformerBackbone, ids_of_side
from tf_transformer.hub.presets import check_preset, described, known_entries
from tf_transformer.hub.tokenizer import TARGET_CONFIG, TransformerTokenizer
from tf_transformer.printable import shown
from tf_transformer.text.framing import end_and_pad, prepend_begin, shift_right, split_tags
from tf_transformer.text.special_ids import PAD_ID


@keras.saving.register_keras_serializable(package="tf_transformer")
class TransformerSeq2SeqLMPreprocessor(keras_hub.models.Seq2SeqLMPreprocessor):
    """Makes the inputs of `TransformerSeq2SeqLM` from pairs of strings.

    For a pair of sentences s_1 ... s_m and t_1 ... t_n:

        encoder_token_ids   s_1 ... s_m end
        decoder_token_ids   begin t_1 ... t_n
        labels              t_1 ... t_n end

    KerasHub's preprocessors begin the encoder's input with a begin id, too. A longer sentence is
    truncated; its labels still end with the end id. Models of several languages need their tags at
    the start of each source, as everywhere in this project.

    Args:
        tokenizer: tokenizer of the source, or of both sides.
        target_tokenizer: tokenizer of the target; None means `tokenizer`.
        encoder_sequence_length: maximum number of ids of a source, the end id included.
        decoder_sequence_length: maximum number of ids of a target, the begin id included.
        num_target_tags: number of tags at the start of a source that belong to its target, as
            `TransformerConfig.num_target_tags`; they follow the begin id, and have no label.
        pad_to_longest: pads a batch to its longest sentence; False pads every batch to the sequence
            lengths, as KerasHub's preprocessors do, for programs that need fixed shapes.
        name: name of the layer.

    Call arguments:
        x: dictionary of `encoder_text` and `decoder_text`, a string or `(batch,)` strings each, or
            the sources alone.
        y: the targets, if `x` is not a dictionary.
        sample_weight: weight of each sentence, `(batch,)`; 1 when None.

    Returns:
        The dictionary of inputs, the labels, and the weight of each label, which is 0 at padding.

    Raises:
        InputError: a text is missing, or a length is not positive.
    """

    backbone_cls = TransformerBackbone
    tokenizer_cls = TransformerTokenizer

    def __init__(
        self,
        tokenizer: TransformerTokenizer,
        target_tokenizer: TransformerTokenizer | None = None,
        *,
        encoder_sequence_length: int = 256,
        decoder_sequence_length: int = 256,
        num_target_tags: int = 0,
        pad_to_longest: bool = True,
        name: str | None = None,
    ):
        for argument, length in (
            ("encoder_sequence_length", encoder_sequence_length),
            ("decoder_sequence_length", decoder_sequence_length),
        ):
            _check_length(argument, length)
        if not is_whole(num_target_tags) or num_target_tags not in (0, 1):
            raise InputError(
                "`num_target_tags` must be 0 or 1. "
                f"Received: num_target_tags={shown(num_target_tags)}"
            )
        super().__init__(tokenizer, encoder_sequence_length, decoder_sequence_length, name=name)
        self.num_target_tags = num_target_tags
        if target_tokenizer is None:
            target_tokenizer = tokenizer
        elif target_tokenizer is not tokenizer and target_tokenizer.config_file != TARGET_CONFIG:
            raise InputError(
                f"`target_tokenizer` must be made with config_file={TARGET_CONFIG!r}, its name in "
                f"a preset. Received: config_file={target_tokenizer.config_file!r}"
            )
        self.target_tokenizer = target_tokenizer
        self.pad_to_longest = pad_to_longest
        self.built = True

    def build(self, input_shape=None):
        """Does nothing: `text.framing` adds begin and end ids, not the packers of KerasHub."""

    def call(
        self,
        x,
        y=None,
        sample_weight=None,
        *,
        encoder_sequence_length=None,
        decoder_sequence_length=None,
        sequence_length=None,
    ):
        sources, targets = _texts(x, y)
        is_single = sources.shape.rank == 0
        if is_single:
            sources, targets = sources[tf.newaxis], targets[tf.newaxis]
        inputs, tags = self._encoder_inputs(sources, encoder_sequence_length)
        length = decoder_sequence_length or sequence_length or self.decoder_sequence_length
        ids = self.target_tokenizer.plain.tokenize(targets)[:, : length - 1 - self.num_target_tags]
        labels = tf.concat([tags, end_and_pad(ids)], axis=1)
        inputs |= _side("decoder", self._pad(shift_right(labels), length))
        labels = tf.concat([tf.fill(tf.shape(tags), PAD_ID), labels[:, self.num_target_tags :]], 1)
        labels = self._pad(labels, length)
        weights = tf.cast(labels != PAD_ID, tf.float32)
        if sample_weight is not None:
            weights *= tf.reshape(tf.cast(sample_weight, tf.float32), (-1, 1))
        if is_single:
            inputs, labels, weights = tf.nest.map_structure(
                lambda part: part[0], (inputs, labels, weights)
            )
        return inputs, labels, weights

    def generate_preprocess(
        self,
        x,
        *,
        encoder_sequence_length=None,
        decoder_sequence_length=None,
        sequence_length=None,
    ):
        """Makes the inputs of the model from sources and the beginnings of their targets.

        Args:
            x: dictionary of `encoder_text` and `decoder_text`, `(batch,)` strings each, or the
                sources alone.
            encoder_sequence_length: maximum number of ids of a source; None means that of the
                layer.
            decoder_sequence_length: maximum number of ids of a target; None means that of the
                layer.
            sequence_length: another name of `decoder_sequence_length`.
        """
        if not isinstance(x, Mapping):
            x = {"encoder_text": x, "decoder_text": self._empty_decoder_text(x)}
        sources, prompts = _texts(x, None)
        length = decoder_sequence_length or sequence_length or self.decoder_sequence_length
        inputs, tags = self._encoder_inputs(sources, encoder_sequence_length)
        ids = self.target_tokenizer.plain.tokenize(prompts)[:, : length - 1 - self.num_target_tags]
        prompt_ids = tf.concat([tags, ids.to_tensor(PAD_ID)], axis=1)
        return inputs | _side("decoder", self._pad(prepend_begin(prompt_ids), length))

    def generate_postprocess(self, x):
        """Converts ids of targets to strings.

        Args:
            x: dictionary of `decoder_token_ids` and `decoder_padding_mask`, `(batch, length)`.
        """
        return self.target_tokenizer.detokenize(ids_of_side(x, "decoder"))

    def _encoder_inputs(self, sources, length):
        """Returns the encoder's inputs, and the tags of the targets."""
        length = length or self.encoder_sequence_length
        tags, ids = split_tags(self.tokenizer.plain.tokenize(sources), self.num_target_tags)
        return _side("encoder", self._pad(end_and_pad(ids[:, : length - 1]), length)), tags

    def _pad(self, ids, length):
        if self.pad_to_longest:
            return ids
        return tf.ensure_shape(
            tf.pad(ids, [[0, 0], [0, length - tf.shape(ids)[1]]]), (ids.shape[0], length)
        )

    @classmethod
    def from_preset(
        cls, preset: str | os.PathLike, config_file: str = "preprocessor.json", **kwargs: Any
    ) -> "TransformerSeq2SeqLMPreprocessor":
        """Loads the preprocessor of a preset, after the checks of `TransformerBackbone`.

        Args:
            preset: a folder, or a name that KerasHub can download.
            config_file: name of the preprocessor's description.
            **kwargs: arguments of the class to replace.

        Raises:
            InputError: the preset is not one of this package, or a file is damaged.
        """
        check_preset(preset, with_weights=False)
        return super().from_preset(os.fspath(preset), config_file, **kwargs)

    def get_config(self):
        config = {
            "tokenizer": keras.layers.serialize(self.tokenizer),
            "target_tokenizer": None,
            "encoder_sequence_length": self.encoder_sequence_length,
            "decoder_sequence_length": self.decoder_sequence_length,
            "num_target_tags": self.num_target_tags,
            "pad_to_longest": self.pad_to_longest,
            "name": self.name,
        }
        if self.target_tokenizer is not self.tokenizer:
            config["target_tokenizer"] = keras.layers.serialize(self.target_tokenizer)
        return config

    @classmethod
    def from_config(cls, config):
        lengths = ("encoder_sequence_length", "decoder_sequence_length")
        others = ("num_target_tags", "pad_to_longest", "name")
        config = known_entries(config, ("tokenizer", "target_tokenizer", *lengths, *others))
        for name in ("tokenizer", "target_tokenizer"):
            config[name] = described(config.get(name), TransformerTokenizer)
        return cls(**config)


def _check_length(argument, length):
    if not is_whole(length) or length < 2:
        raise InputError(
            f"`{argument}` must be an integer of at least 2. Received: {argument}={shown(length)}"
        )


def check_parts(given: Mapping[str, Any]) -> None:
    """Checks that sources and targets are there.

    Args:
        given: `encoder_text` and `decoder_text`, or the arguments `x` and `y`.

    Raises:
        InputError: one is missing.
    """
    if "x" in given and given.get("y") is None:
        raise InputError("`y` must be the targets if `x` are the sources. Received: y=None")
    if "x" not in given and {"encoder_text", "decoder_text"} - set(given):
        raise InputError(
            "`x` must be a dictionary with the keys encoder_text and decoder_text. "
            f"Received: {sorted(given)}"
        )


def _texts(x, y):
    """Returns sources and targets as tensors of strings."""
    given = x if isinstance(x, Mapping) else {"x": x, "y": y}
    check_parts(given)
    names = ("encoder_text", "decoder_text") if isinstance(x, Mapping) else ("x", "y")
    sources, targets = (tf.convert_to_tensor(given[name], tf.string) for name in names)
    if not sources.shape.is_compatible_with(targets.shape):
        raise InputError(
            "there must be as many targets as sources. Received: the shapes "
            f"{tuple(sources.shape)} and {tuple(targets.shape)}"
        )
    return sources, targets


def _side(side, ids):
    return {f"{side}_token_ids": ids, f"{side}_padding_mask": ids != PAD_ID}
