"""Model directories: everything that is needed to translate, as data files without code.

    config.json        format version and settings of the model
    source.spm         SentencePiece model of the source; a language model has none
    target.spm         SentencePiece model of the target, equal to source.spm when joint
    model.weights.h5   the weights, by name

Training adds other files to the directory; `adapter_file` describes `adapter.h5`. Every file is
written atomically: under a temporary name and then renamed.
"""

import contextlib
import dataclasses
import math
import os
import pathlib
import reprlib
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from tf_transformer.argument_types import as_path
from tf_transformer.config import TransformerConfig
from tf_transformer.errors import InputError
from tf_transformer.known_names import nearest
from tf_transformer.model_names import resolve_name
from tf_transformer.printable import shown
from tf_transformer.storage.json_files import read_json, write_json
from tf_transformer.storage.new_folder import check_new_folder, new_folder
from tf_transformer.storage.own_files import replacing_own
from tf_transformer.storage.regular_files import read_regular
from tf_transformer.storage.weight_shapes import weight_shapes
from tf_transformer.storage.weights_file import (
    check_arrays,
    check_model_weights,
    digest_arrays,
    read_model_weights,
    write_model_weights,
)
from tf_transformer.text.vocabulary import MAX_MODEL_BYTES, WORD_BEGIN, Vocabulary

if TYPE_CHECKING:  # functions that need no model must not import TensorFlow
    import keras

    from tf_transformer.models.base import DecoderModel
    from tf_transformer.models.transformer import Transformer
    from tf_transformer.storage.adapter_file import Adapter
    from tf_transformer.text.tokenizer import Tokenizer

FORMAT_VERSION = 2

CONFIG_NAME = "config.json"
WEIGHTS_NAME = "model.weights.h5"
DECODING_DTYPES = ("float32", "bfloat16", "int8")
# From a model and the tokenizers of source and target to the argument `input_ranges` of `quantize`.
Calibrate = Callable[
    ["Transformer", "Tokenizer | None", "Tokenizer"], "Mapping[keras.layers.Layer, float]"
]


def write_config_and_tokenizers(
    model_dir: pathlib.Path,
    config: TransformerConfig,
    source_model: bytes | None,
    target_model: bytes,
) -> None:
    """Writes all files of a model directory except the weights.

    Args:
        model_dir: the model directory, which is created if necessary.
        config: the model's settings.
        source_model: serialized SentencePiece model of the source; None in a language model.
        target_model: serialized SentencePiece model of the target.
    """
    model_dir.mkdir(parents=True, exist_ok=True)
    for name, model in (("source.spm", source_model), ("target.spm", target_model)):
        if model is None:
            (model_dir / name).unlink(missing_ok=True)
            continue
        with replacing_own(model_dir / name) as path:
            path.write_bytes(model)
    description = {"format_version": FORMAT_VERSION, "model": dataclasses.asdict(config)}
    with replacing_own(model_dir / CONFIG_NAME) as path:
        write_json(path, description)


def write_weights(model_dir: pathlib.Path, model: "keras.Model") -> None:
    """Writes the model's weights, as one HDF5 dataset per weight, and replaces a former file."""
    write_model_weights(model_dir / WEIGHTS_NAME, model)


def weights_digest(model_dir: pathlib.Path, config: TransformerConfig | None = None) -> str:
    """Returns a BLAKE2 digest of the weights' names and values, independent of the file's bytes.

    Args:
        model_dir: the directory of the weights.
        config: the settings of their model; None reads them from `model_dir`.

    Raises:
        InputError: the file is missing, damaged or of another model.
    """
    shapes = weight_shapes(config or read_config(model_dir))
    with _explain_missing_weights(model_dir):
        return digest_arrays(model_dir / WEIGHTS_NAME, shapes)


@contextlib.contextmanager
def _explain_missing_weights(model_dir: pathlib.Path) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError as error:
        raise InputError(
            f"{model_dir}: no {WEIGHTS_NAME} yet; training has written no checkpoint"
        ) from error


def check_weights(model_dir: pathlib.Path, config: TransformerConfig) -> int:
    """Checks names, shapes and sizes of the weights in a directory, without reading them.

    Args:
        model_dir: the directory of the weights.
        config: the settings of their model.

    Returns:
        The number of parameters.

    Raises:
        InputError: the file is missing, damaged or of another model.
    """
    shapes = weight_shapes(config)
    with _explain_missing_weights(model_dir):
        check_arrays(model_dir / WEIGHTS_NAME, shapes)
    return sum(map(math.prod, shapes.values()))


def read_weights(
    model_dir: pathlib.Path,
    model: "keras.Model",
    adapter: "Adapter | None" = None,
    but: str | None = None,
    *,
    mapped: bool = False,
) -> None:
    """Assigns the weights in a directory to a model.

    Args:
        model_dir: the directory of the weights.
        model: a model whose weights have the names and shapes of those in the file.
        adapter: what to add to the weights.
        but: weights whose names begin with this are not in the file, and stay; None means none.
        mapped: see `read_model_weights`.

    Raises:
        InputError: the file is missing, damaged, of another model, or has weights that are not
            finite.
    """
    with _explain_missing_weights(model_dir):
        change = None if adapter is None else adapter.added_to
        read_model_weights(model_dir / WEIGHTS_NAME, model, change, but, mapped=mapped)


def read_config(model_dir: pathlib.Path) -> TransformerConfig:
    """Reads the model's settings.

    Raises:
        InputError: not a model directory, one of another format version, or settings are invalid.
    """
    path = model_dir / CONFIG_NAME
    if model_dir.is_file():
        hint = f"give its folder, {model_dir.parent}"
        if model_dir.suffix == ".keras":
            hint = "load it by `keras.models.load_model`, and write a directory by `save_model`"
        raise InputError(f"{model_dir} is not a model directory but a file; {hint}")
    try:
        description = read_json(path)
    except FileNotFoundError as error:
        raise InputError(
            f"{model_dir} is not a model directory: it has no {CONFIG_NAME}"
        ) from error
    version = description.get("format_version")
    if version is None and "model_type" in description:
        raise InputError(
            f"{path}: a folder of Transformers, not a model directory; `tf-transformer import "
            f"--input {model_dir} --model-dir DIR` makes one of it"
        )
    if version != FORMAT_VERSION:
        raise InputError(
            f"{path}: this version reads model directories of format {FORMAT_VERSION}, "
            f"got format {reprlib.repr(version)}"
        )
    return config_from_settings(description.get("model"), path)


def config_from_settings(settings: Any, where: object) -> TransformerConfig:
    """Checks untrusted settings of a model and returns its configuration.

    Args:
        settings: a dictionary of the fields of `TransformerConfig`.
        where: their file, for the error message.

    Raises:
        InputError: the settings are no dictionary, or one is unknown or invalid.
    """
    known = {field.name for field in dataclasses.fields(TransformerConfig)}
    if not isinstance(settings, dict):
        raise InputError(f"{where}: expected the model's settings, got {reprlib.repr(settings)}")
    for name in settings:
        if name not in known:
            raise InputError(
                f"{where}: unknown setting of the model: {reprlib.repr(name)}{nearest(name, known)}"
            )
    try:
        return TransformerConfig(**settings)
    except (TypeError, ValueError) as error:
        raise InputError(f"{where}: {str(error)[:400]}") from error


def read_vocabularies(model_dir: pathlib.Path) -> tuple[Vocabulary | None, Vocabulary]:
    """Reads the vocabularies of source and target; the source of a language model is None.

    Raises:
        InputError: a file is missing, is not a SentencePiece model, or does not have the number of
            pieces or the tags that the model's settings need.
    """
    config = read_config(model_dir)
    source = None
    if config.source_vocab_size is not None:
        source = _read_vocabulary(model_dir, "source", config.source_vocab_size)
    target = _read_vocabulary(model_dir, "target", config.target_vocab_size)
    _check_tags(config, source, target, f"{model_dir}: ")
    return source, target


def _check_tags(config, source, target, where=""):
    if not source or config.num_tags == 1:
        return
    is_shared = not config.num_target_tags or source.pieces == target.pieces
    if source.begin_ids:  # instead of tags
        fits = is_shared and not target.begin_ids
    else:
        tags = [source.pieces[token_id] for token_id in source.tag_ids]
        # Others follow a piece that is only the space before them.
        fits = is_shared and tags and all(tag.startswith(WORD_BEGIN) for tag in tags)
    if not fits:
        needed = "one vocabulary for both sides," if config.num_target_tags else "a vocabulary"
        raise InputError(
            f"{where}language_tags={config.language_tags!r} needs {needed} with tags such as "
            ">>deu<<"
        )


def _read_vocabulary(model_dir: pathlib.Path, side: str, size: int) -> Vocabulary:
    path = model_dir / f"{side}.spm"
    try:
        vocabulary = Vocabulary(read_regular(path, MAX_MODEL_BYTES))
    except (FileNotFoundError, ValueError) as error:
        raise InputError(f"{path}: missing or damaged ({error})") from error
    if vocabulary.vocab_size != size:
        raise InputError(
            f"{model_dir}: {side}.spm must have {side}_vocab_size={size} pieces, "
            f"got {vocabulary.vocab_size}"
        )
    return vocabulary


def check_model_dir(model_dir: pathlib.Path) -> tuple[Vocabulary | None, Vocabulary]:
    """Checks the files that `load_model` reads, except the weights' values, without TensorFlow.

    Returns:
        The vocabularies of source and target; the source of a language model is None.

    Raises:
        InputError: a file is missing, damaged, or does not fit the others.
    """
    vocabularies = read_vocabularies(model_dir)
    check_weights(model_dir, read_config(model_dir))
    return vocabularies


def read_tokenizers(model_dir: pathlib.Path) -> "tuple[Tokenizer | None, Tokenizer]":
    """Reads the tokenizers of source and target; the source of a language model is None.

    Raises:
        InputError: as `read_vocabularies`.
    """
    from tf_transformer.text.tokenizer import Tokenizer

    source, target = read_vocabularies(model_dir)
    return None if source is None else Tokenizer(source.model), Tokenizer(target.model)


def make_model(config: TransformerConfig, dtype: str = "float32") -> "DecoderModel":
    """Returns a `LanguageModel` for decoder-only configurations, a `Transformer` for all others."""
    from tf_transformer.models.language_model import LanguageModel
    from tf_transformer.models.transformer import Transformer

    return (LanguageModel if config.decoder_only else Transformer)(config, dtype=dtype)


def load_model(
    model_dir: str | os.PathLike,
    dtype: str = "float32",
    adapter: "Adapter | None" = None,
    *,
    mapped: bool = False,
) -> "tuple[DecoderModel, Tokenizer | None, Tokenizer]":
    """Loads the model and its tokenizers from a model directory.

    Args:
        model_dir: the model directory, or the name of a model of the Hugging Face Hub, see
            `Translator.load`.
        dtype: "float32", or "bfloat16" for layers with half the memory; embeddings, softmax, logits
            and scores are always float32.
        adapter: what to add to the weights.
        mapped: whether large float32 weights stay in the file, see `read_model_weights`; not with
            an adapter.

    Returns:
        The model and the tokenizers of source and target; the source tokenizer of a language model
        is None.

    Raises:
        InputError: a file is missing, damaged, or does not fit the others.
    """
    from tf_transformer.models.assignment import without_initial_values

    model_dir = as_path(resolve_name(model_dir), "model_dir", "a model directory")
    config = read_config(model_dir)
    source_tokenizer, target_tokenizer = read_tokenizers(model_dir)
    check_weights(model_dir, config)  # before memory is allocated for the model
    model = without_initial_values(lambda: make_model(config, dtype))
    read_weights(model_dir, model, adapter, mapped=mapped)
    return model, source_tokenizer, target_tokenizer


def save_model(
    model: "DecoderModel",
    source_tokenizer: "Tokenizer | None",
    target_tokenizer: "Tokenizer",
    model_dir: str | os.PathLike,
) -> None:
    """Writes a model directory, which `load_model` and every command of `tf-transformer` read.

    The weights are written in float32, LoRA is merged, and the optimizer is left out.

    Args:
        model: a `Transformer` or a `LanguageModel`, such as one that you have trained by `fit`.
        source_tokenizer: tokenizer of the source; None for a language model.
        target_tokenizer: tokenizer of the target.
        model_dir: the directory to write, new or empty.

    Raises:
        InputError: the model is none of these, or one that can only decode; a tokenizer has another
            number of pieces than the model, or not its language tags; weights are not finite; or
            `model_dir` is not empty.
        OSError: `model_dir` cannot be written.
    """
    config = _config_to_save(model)
    source = None
    if source_tokenizer is not None or config.source_vocab_size is not None:
        source = _model_to_save("source", source_tokenizer, config.source_vocab_size)
    target = _model_to_save("target", target_tokenizer, config.target_vocab_size)
    _check_tags(config, source_tokenizer, target_tokenizer)
    check_model_weights(model, weight_shapes(config))
    model_dir = as_path(model_dir, "model_dir", "a model directory")
    check_new_folder(model_dir)
    with new_folder(model_dir) as folder:
        write_config_and_tokenizers(folder, config, source, target)
        write_weights(folder, model)


def _config_to_save(model):
    from tf_transformer.models.base import DecoderModel

    if not isinstance(model, DecoderModel):
        raise InputError(
            "`model` must be a Transformer or a LanguageModel; a task of KerasHub has "
            f"`to_model_dir`. Received: {type(model).__name__}"
        )
    model.check_not_quantized()
    return model.config


def _model_to_save(side: str, tokenizer: Any, size: int | None) -> bytes:
    """Returns the SentencePiece model of a tokenizer, after a check that it fits the model."""
    name = f"{side}_tokenizer"
    if size is None:
        raise InputError(f"`{name}` must be None: a LanguageModel has no source")
    if not isinstance(tokenizer, Vocabulary):
        raise InputError(
            f"`{name}` must be a Tokenizer, `Tokenizer(PATH)`. Received: {type(tokenizer).__name__}"
        )
    if tokenizer.vocab_size != size:
        raise InputError(
            f"`{name}` must have as many pieces as the model's {side}_vocab_size={size}. "
            f"Received: {tokenizer.vocab_size}"
        )
    return tokenizer.model


def load_for_decoding(
    model_dir: pathlib.Path,
    dtype: str = "float32",
    calibrate: Calibrate | None = None,
    adapter: "Adapter | None" = None,
    for_gpu: bool | None = None,
    folded: bool = True,
) -> "tuple[DecoderModel, Tokenizer | None, Tokenizer]":
    """Loads a model as `load_model` does, but with weights that are prepared for decoding.

    The model can only decode, see `prepare_for_decoding`.

    Args:
        model_dir: the model directory.
        dtype: "float32", "bfloat16", or "int8" for 8-bit products, see `quantize`.
        calibrate: with "int8", a function that returns the argument `input_ranges` of `quantize`
            from the loaded model and its tokenizers; None means a scale per row.
        adapter: what to add to the weights.
        for_gpu: see `prepare_for_decoding`.
        folded: see `prepare_for_decoding`.

    Returns:
        As `load_model`.

    Raises:
        InputError: as `load_model`, the dtype is unknown, or int8 cannot be computed here.
    """
    model, source, target = load_model(model_dir, dtype_to_load(dtype), adapter)
    ranges = calibrate(model, source, target) if calibrate else None
    prepare_for_decoding(model, dtype, ranges, for_gpu, folded)
    return model, source, target


def dtype_to_load(dtype: str) -> str:
    """Returns the dtype of a model before `prepare_for_decoding`.

    Raises:
        InputError: the dtype is unknown.
    """
    if dtype not in DECODING_DTYPES:
        raise InputError(f"`dtype` must be one of {DECODING_DTYPES}. Received: {shown(dtype)}")
    return "float32" if dtype == "int8" else dtype


def prepare_for_decoding(
    model: "DecoderModel",
    dtype: str,
    input_ranges: "Mapping[keras.layers.Layer, float] | None" = None,
    for_gpu: bool | None = None,
    folded: bool = True,
) -> None:
    """Prepares the weights of a model, and tabulates sinusoids; it can then only decode.

    Weights are quantized; where they are not, norms are folded into them, and for a CPU they are
    arranged for products of few rows.

    Args:
        model: a model of the dtype that `dtype_to_load` returns.
        dtype: as for `load_for_decoding`.
        input_ranges: with "int8", the argument of `quantize`.
        for_gpu: whether the model will run on a GPU, which gains nothing from other arrangements
            of the weights; None means whether TensorFlow uses one.
        folded: whether norms are folded, see `fold_norms`; not for products that are then given
            adapters.

    Raises:
        InputError: int8 cannot be computed here, see `quantize`.
    """
    from tf_transformer.backend import has_gpu
    from tf_transformer.layers.positions import PositionalEncoding
    from tf_transformer.private_interfaces import sublayers
    from tf_transformer.quantization import int8
    from tf_transformer.quantization.folded_norms import fold_norms
    from tf_transformer.quantization.tiled_matmul import arrange_weights

    for layer in sublayers(model):
        if isinstance(layer, PositionalEncoding):
            layer.tabulate()
    if dtype == "int8":
        int8.quantize(model, input_ranges)
    if folded:
        fold_norms(model)
    if not (has_gpu() if for_gpu is None else for_gpu):
        arrange_weights(model)
