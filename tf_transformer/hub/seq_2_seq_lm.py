"""The task of KerasHub: a backbone with text in and out."""

import dataclasses
import os
import pathlib
from collections.abc import Callable
from typing import Any, NoReturn

import keras
import tensorflow as tf

from tf_transformer.errors import InputError
from tf_transformer.hub.backbone import TransformerBackbone, check_dtypes
from tf_transformer.hub.generation import TextGenerators
from tf_transformer.hub.generation_options import options_of_sampler
from tf_transformer.hub.preprocessor import TransformerSeq2SeqLMPreprocessor
from tf_transformer.hub.presets import check_preset, described, known_entries
from tf_transformer.hub.tokenizer import TARGET_CONFIG, TransformerTokenizer
from tf_transformer.hub.traced_weights import TracedWeights
from tf_transformer.hub.training import TrainedOnText, check_arguments
from tf_transformer.inference.translator import Translator
from tf_transformer.known_names import check_names, keywords
from tf_transformer.losses.label_smoothing import LabelSmoothedCrossEntropy
from tf_transformer.losses.metrics import Perplexity, TokenAccuracy
from tf_transformer.printable import shown
from tf_transformer.storage.model_dir import (
    check_weights,
    dtype_to_load,
    prepare_for_decoding,
    read_config,
    read_tokenizers,
    read_weights,
    save_model,
)
from tf_transformer.text.tokenizer import Tokenizer

# Other arguments of the class, which are those of KerasHub's.
_ARGUMENTS = ("name", "trainable", "compile")


class _Logits(keras.layers.Layer):
    """Computes the logits from the output of a `TransformerBackbone`, whose weights it borrows."""

    def __init__(self, function: Callable[[Any], Any], **kwargs: Any):
        super().__init__(dtype="float32", **kwargs)
        self._function = function  # no layer, or a summary would count the weights twice
        self.built = True

    def call(self, hidden):
        return self._function(hidden)


@keras.saving.register_keras_serializable(package="tf_transformer")
class TransformerSeq2SeqLM(TrainedOnText):
    """Trains and runs an encoder-decoder `Transformer` on strings, as a task of KerasHub.

        task = TransformerSeq2SeqLM.from_model_dir("model")
        task.generate(["A man sleeps."])
        task.fit(sources, targets, batch_size=64)
        task.save_to_preset("preset")
        task.to_model_dir("another_model")

    `generate` is this project's beam search, or its sampling. Differences from KerasHub's tasks:

    - The loss is label-smoothed (0.1) and a mean over the tokens of a batch; padding has no loss.
    - Batches are padded to their longest sentence, so XLA, which would compile every shape, is off
      unless `compile(jit_compile=True)` turns it on.
    - `fit` accepts sources and targets as `x` and `y`, besides the dictionary of `encoder_text` and
      `decoder_text`, and shuffles them in each epoch, as Keras does with arrays and KerasHub does
      not.
    - `export` only names the function of another package that exports.

    Args:
        backbone: the model.
        preprocessor: makes ids from strings; None if all inputs are ids.
        **kwargs: `name`, `trainable` and `compile`, as those of `keras_hub.models.Seq2SeqLM`.

    Raises:
        InputError: `backbone` or `preprocessor` has another class, they do not fit, or an argument
            is unknown.
    """

    backbone_cls = TransformerBackbone
    preprocessor_cls = TransformerSeq2SeqLMPreprocessor

    def __init__(
        self,
        backbone: TransformerBackbone,
        preprocessor: TransformerSeq2SeqLMPreprocessor | None = None,
        **kwargs: Any,
    ):
        check_names(kwargs, ("backbone", "preprocessor", *_ARGUMENTS), "argument")
        _check_parts(backbone, preprocessor)
        # KerasHub sets them before it makes the functional model.
        self.backbone = backbone
        self.preprocessor = preprocessor
        self._generators = TextGenerators()
        self._traced = TracedWeights()
        inputs = backbone.input
        hidden = backbone(inputs)["decoder_sequence_output"]
        outputs = _Logits(backbone.transformer.logits, name="logits")(hidden)
        super().__init__(inputs=inputs, outputs=outputs, **kwargs)

    @classmethod
    def from_model_dir(
        cls, model_dir: str | os.PathLike, dtype: Any = "float32", **kwargs: Any
    ) -> "TransformerSeq2SeqLM":
        """Makes a task from a model directory, which `tf-transformer train` has written.

        Args:
            model_dir: the model directory.
            dtype: dtype or dtype policy, such as "mixed_bfloat16" for training in half precision.
            **kwargs: those of the class.

        Raises:
            InputError: a file is missing, damaged, or does not fit the others; it is a language
                model; or an argument is unknown.
        """
        check_names(kwargs, ("model_dir", "dtype", *_ARGUMENTS), "argument")
        path = pathlib.Path(model_dir)
        config = read_config(path)
        source, target = read_tokenizers(path)
        if source is None:
            raise InputError(f"{path}: is a language model, which has no source")
        check_weights(path, config)  # before memory is allocated for the model
        backbone = TransformerBackbone(**dataclasses.asdict(config), dtype=dtype)
        read_weights(path, backbone.transformer)
        target_tokenizer = None
        if target.model != source.model:
            target_tokenizer = TransformerTokenizer(
                target.model, config_file=TARGET_CONFIG, name="target_tokenizer"
            )
        preprocessor = TransformerSeq2SeqLMPreprocessor(
            TransformerTokenizer(source.model, name="tokenizer"),
            target_tokenizer,
            encoder_sequence_length=config.max_length,
            decoder_sequence_length=config.max_length,
            num_target_tags=config.num_target_tags,
        )
        return cls(backbone, preprocessor, **kwargs)

    def to_model_dir(self, model_dir: str | os.PathLike) -> None:
        """Writes a model directory, which every command of `tf-transformer` reads; merges LoRA.

        Args:
            model_dir: the directory to write, new or empty.

        Raises:
            InputError: `model_dir` is not empty, the task has no preprocessor or is quantized, or
                weights are not finite.
        """
        save_model(self.backbone.transformer, *self.tokenizers, model_dir)

    @classmethod
    def from_preset(
        cls, preset: str | os.PathLike, load_weights: bool = True, **kwargs: Any
    ) -> "TransformerSeq2SeqLM":
        """Loads a preset, after the checks that `TransformerBackbone` describes.

        Args:
            preset: a folder, or a name that KerasHub can download.
            load_weights: False initializes the weights at random.
            **kwargs: `dtype`, and arguments of the class to replace.

        Raises:
            InputError: the preset is not one of this class, or a file is missing, damaged, or does
                not fit the others.
        """
        check_preset(preset, load_weights)
        task = super().from_preset(os.fspath(preset), load_weights, **kwargs)
        if task.preprocessor is not None:
            _check_vocabularies(task.backbone, task.preprocessor)
        return task

    def save_to_preset(self, preset_dir: str | os.PathLike, max_shard_size: Any = None) -> None:
        """Writes a preset; merges LoRA.

        Args:
            preset_dir: the folder to write.
            max_shard_size: unused; the weights are one file of any size.

        Raises:
            InputError: the task is quantized.
        """
        super().save_to_preset(os.fspath(preset_dir))

    def load_task_weights(self, filepath: str | os.PathLike) -> NoReturn:
        """Raises an error: all weights are the backbone's, and a preset has no `task.weights.h5`.

        Raises:
            InputError: always.
        """
        raise InputError(f"{filepath}: expected no such file, since the task has no weights itself")

    @property
    def tokenizers(self) -> tuple[Tokenizer, Tokenizer]:
        """This project's tokenizers of source and target.

        Raises:
            InputError: there is no preprocessor, or a vocabulary has another size than the model's.
        """
        if self.preprocessor is None:
            raise InputError("`preprocessor` must be set for text. Received: preprocessor=None")
        _check_vocabularies(self.backbone, self.preprocessor)
        return self.preprocessor.tokenizer.plain, self.preprocessor.target_tokenizer.plain

    def compile(
        self,
        optimizer: Any = "auto",
        loss: Any = "auto",
        *,
        weighted_metrics: Any = "auto",
        sampler: Any = "auto",
        **kwargs: Any,
    ) -> None:
        """Configures training and the defaults of `generate`.

        Args:
            optimizer: "auto" is the paper's Adam with a constant learning rate of 1e-4, for
                fine-tuning. To train from scratch, give one with a `NoamSchedule`.
            loss: "auto" is `LabelSmoothedCrossEntropy(0.1)`.
            weighted_metrics: "auto" is `TokenAccuracy` and `Perplexity`.
            sampler: "auto" searches with this project's defaults. A sampler of KerasHub, or its
                name, selects the options of this project's search that correspond to it: greedy,
                beam (with a length penalty), random, top-k and top-p.
            **kwargs: those of `keras.Model.compile`.

        Raises:
            InputError: nothing corresponds to `sampler`, or an argument is unknown.
        """
        check_arguments(kwargs, keras.Model.compile)
        self._generators.defaults = options_of_sampler(sampler)
        if _is_auto(optimizer):
            optimizer = keras.optimizers.Adam(1e-4, beta_2=0.98, epsilon=1e-9)
        if _is_auto(loss):
            loss = LabelSmoothedCrossEntropy(0.1)
        if _is_auto(weighted_metrics):
            weighted_metrics = [TokenAccuracy(), Perplexity()]
        super().compile(
            optimizer,
            loss,
            weighted_metrics=weighted_metrics,
            sampler="beam" if _is_auto(sampler) else sampler,
            **{"jit_compile": False} | kwargs,
        )

    def call(self, inputs, training=None, mask=None, **options):
        check_dtypes(inputs)
        return super().call(inputs, training=training, mask=mask, **options)

    def preprocess_samples(self, x, y=None, sample_weight=None):
        if self.preprocessor is not None:
            _check_vocabularies(self.backbone, self.preprocessor)
        return super().preprocess_samples(x, y, sample_weight)

    def generate(
        self,
        inputs: Any,
        max_length: int | None = None,
        stop_token_ids: Any = "auto",
        strip_prompt: bool = False,
        **options: Any,
    ) -> Any:
        """Translates strings, by beam search unless the options ask for samples.

            task.generate("A man sleeps.", beam_size=8, length_penalty=1.0)
            task.generate(["A man sleeps."] * 3, temperature=0.8, top_p=0.9, seed=1)

        An option is a number, or a list with one for each sentence.

        Args:
            inputs: a string, strings, a dictionary of `encoder_text` and of the outputs' beginnings
                in `decoder_text`, or a `tf.data.Dataset` of batches of these.
            max_length: maximum number of tokens of an output, without begin and end; derived from
                the source when None. No output is longer than the model's `max_length` - 1.
            stop_token_ids: "auto", or ids that end an output in addition to the end id.
            strip_prompt: must be False; the outputs contain `decoder_text`.
            **options: of beam search, `beam_size` (4), `length_penalty` (0.6), `min_length`,
                `no_repeat_ngram`, `coverage_penalty`; of sampling, `temperature`, `top_k`, `top_p`,
                `seed`. A single seed is that of the first sentence, and each further sentence has
                the next one, so that equal sentences get different samples; without a seed, every
                call draws new ones.

        Returns:
            A string for a string, else a list of strings.

        Raises:
            InputError: an option or an input is invalid, or the task has no preprocessor.
        """
        if strip_prompt:
            raise InputError("`strip_prompt` must be False. Received: strip_prompt=True")
        if isinstance(inputs, tf.data.Dataset):
            arguments = (max_length, stop_token_ids, strip_prompt)
            found = (self.generate(batch, *arguments, **options) for batch in inputs)
            return [text for texts in found for text in texts]
        return self._generators.generate(
            self.backbone.transformer,
            self.tokenizers,
            inputs,
            stop_token_ids,
            options | {"max_length": max_length},
        )

    def translator(self, dtype: str = "float32", **options: Any) -> Translator:
        """Returns a `Translator` with a copy of the weights, LoRA merged, prepared for decoding.

        It is the one that `Translator.load` returns for the directory that `to_model_dir` writes:
        faster than `generate` for large models, and with n best outputs and scores.

        Args:
            dtype: "float32", "bfloat16" or "int8", see `load_for_decoding`.
            **options: those of `Translator`, such as `beam_size`.

        Raises:
            InputError: an argument is out of range, or the task has no preprocessor or is
                quantized.
        """
        of_load = keywords(Translator.load)
        known = [x for x in Translator.load_options() if x == "dtype" or x not in of_load]
        check_names(options, known)
        tokenizers = self.tokenizers
        model = self.backbone.merged_transformer(dtype_to_load(dtype))
        prepare_for_decoding(model, dtype)
        return Translator(model, *tokenizers, **options)

    def quantize(self, mode: Any = None, config: Any = None) -> None:
        """Quantizes the backbone, see `TransformerBackbone.quantize`."""
        self.backbone.quantize(mode, config)

    def export(self, filepath: str | os.PathLike, *arguments: Any, **options: Any) -> NoReturn:
        """Raises an error that names the functions to call instead.

        `export.export_task` writes the SavedModel of `tf-transformer export`. This package must not
        import the package `export`.

        Raises:
            InputError: always.
        """
        raise InputError(
            "Call `export.export_task(task, directory)` for a SavedModel that translates text, or "
            "`task.backbone.transformer.export(path)` for one from token ids to logits"
        )

    @classmethod
    def from_config(cls, config):
        names = ("backbone", "preprocessor", "name", "compile", "trainable")
        config = known_entries(config, names)
        config["backbone"] = described(config.get("backbone"), TransformerBackbone)
        config["preprocessor"] = described(
            config.get("preprocessor"), TransformerSeq2SeqLMPreprocessor
        )
        return cls(**config)


def _check_parts(backbone, preprocessor):
    if not isinstance(backbone, TransformerBackbone):
        raise InputError(f"`backbone` must be a TransformerBackbone. Received: {shown(backbone)}")
    if preprocessor is None:
        return
    if not isinstance(preprocessor, TransformerSeq2SeqLMPreprocessor):
        raise InputError(
            "`preprocessor` must be a TransformerSeq2SeqLMPreprocessor or None. "
            f"Received: {shown(preprocessor)}"
        )
    config = backbone.transformer.config
    if preprocessor.num_target_tags != config.num_target_tags:
        raise InputError(
            f"The preprocessor of this model must have num_target_tags={config.num_target_tags}. "
            f"Received: num_target_tags={preprocessor.num_target_tags}"
        )
    limit = config.max_length
    for name in ("encoder_sequence_length", "decoder_sequence_length"):
        if getattr(preprocessor, name) > limit:
            raise InputError(
                f"`{name}` must be at most the model's max_length={limit}. "
                f"Received: {name}={getattr(preprocessor, name)}"
            )


def _check_vocabularies(backbone, preprocessor):
    config = backbone.transformer.config
    for side, tokenizer, size in (
        ("source", preprocessor.tokenizer, config.source_vocab_size),
        ("target", preprocessor.target_tokenizer, config.target_vocab_size),
    ):
        if tokenizer.vocabulary_size() != size:
            raise InputError(
                f"The tokenizer of the {side} must have {side}_vocab_size={size} pieces. "
                f"Received: {tokenizer.vocabulary_size()}"
            )


def _is_auto(value):
    return isinstance(value, str) and value == "auto"
