"""Where a command finds its model: a model directory, a SavedModel or a server."""

import argparse
import contextlib
import functools
import pathlib
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

from tf_transformer.command_line.client_options import check_client_options, parse_client_options
from tf_transformer.command_line.command_options import (
    folder,
    parse_models,
    parse_search,
    text,
)
from tf_transformer.command_line.quiet import import_tensorflow
from tf_transformer.errors import InputError
from tf_transformer.predictors.predictor import Predictor
from tf_transformer.storage.saved_model import model_digest, version_folder

if TYPE_CHECKING:  # `--help` must not import SentencePiece
    from tf_transformer.predictors.model_predictor import ModelPredictor
    from tf_transformer.storage.trained_models import TrainedModels

# Options of search that are given for each row, and their help.
_OUTPUT_OPTIONS = {
    "max_length": "the longest translation, in tokens (default: derived from the source)",
    "min_length": "the shortest translation, in tokens",
    "no_repeat_ngram": "no sequence of N tokens occurs twice in a translation, as in summaries",
}
_LARGEST = 2**20


def add_exported_model(source: argparse._MutuallyExclusiveGroup) -> None:
    """Adds `--saved-model` and `--server`.

    Args:
        source: the group of options for where the model is.
    """
    source.add_argument(
        "--saved-model", type=folder, metavar="DIR",
        help="an exported model, such as served/1",
    )  # fmt: skip
    source.add_argument(
        "--server", type=text, metavar="HOST:PORT",
        help="address of a TF Serving that serves an exported model",
    )  # fmt: skip


def check_place(options: argparse.Namespace, local: Iterable[str]) -> None:
    """Checks that options go with where the model is.

    Args:
        options: the parsed command line.
        local: names of the options that are for a model directory.

    Raises:
        InputError: one is given without a model directory, or one of a server without that.
    """
    check_local(options, local)
    check_client_options(options)


def check_local(options: argparse.Namespace, local: Iterable[str]) -> None:
    """Checks that options for a model directory are given for one.

    Args:
        options: the parsed command line.
        local: names of the options that are for a model directory.

    Raises:
        InputError: one is given without a model directory.
    """
    for name in local:
        if options.model_dir is None and getattr(options, name):
            raise InputError(f"--{name.replace('_', '-')} is valid only with --model-dir")


@contextlib.contextmanager
def open_predictor(
    options: argparse.Namespace, load: Callable[[], Predictor], **client_options: Any
) -> Iterator[Callable[[], Predictor]]:
    """Yields a function that returns the predictor, loaded in its first call.

    Args:
        options: the parsed command line, with `--server` and `--saved-model`.
        load: loads the model directory.
        **client_options: further arguments of `Client`.

    Raises:
        InputError: the address of the server or an option is not valid; in the call, the model
            cannot be loaded.
    """
    if options.model_dir is None:
        with open_exported_model(options, **client_options) as predictor:
            yield predictor
    else:
        yield functools.cache(load)


@contextlib.contextmanager
def open_exported_model(
    options: argparse.Namespace, **client_options: Any
) -> Iterator[Callable[[], Predictor]]:
    """Yields a function that returns the predictor of `--saved-model` or `--server`.

    Args:
        options: the parsed command line.
        **client_options: further arguments of `Client`.

    Raises:
        InputError: as `open_predictor`.
    """
    if options.server is None:
        yield functools.cache(lambda: load_saved_model(options.saved_model))
        return
    from tf_transformer.predictors.client import Client

    with Client(options.server, **parse_client_options(options) | client_options) as client:
        yield lambda: client


def model_facts(options: argparse.Namespace) -> dict[str, Any]:
    """Returns what identifies the model that the options name, as JSON values.

    Raises:
        InputError: there is no model, or its files are damaged.
    """
    if options.server is not None:
        return server_facts(options.server, options)
    if options.saved_model is not None:
        return {"saved_model": model_digest(version_folder(options.saved_model))}
    return {"weights_digest_blake2b": parse_models(options).digest()}


def server_facts(address: str, options: argparse.Namespace) -> dict[str, Any]:
    """Returns what identifies the model of a server, as JSON values; not how it is asked."""
    return {"server": address} | ({"model": options.model} if options.model else {})


def row_options(options: argparse.Namespace) -> dict[str, Any]:
    """Returns the search options of each row.

    Args:
        options: the parsed command line; a model directory is loaded for the beam size and the
            length penalty that it asks for, so that its rows need none.
    """
    return ({} if options.model_dir else parse_search(options)) | parse_output_options(options)


def add_output_options(parser: argparse.ArgumentParser) -> None:
    """Adds the options of search that limit outputs."""
    for name, what in _OUTPUT_OPTIONS.items():
        parser.add_argument(f"--{name.replace('_', '-')}", type=int, metavar="N", help=what)


def parse_output_options(options: argparse.Namespace) -> dict[str, int]:
    """Returns the options of `add_output_options` that were given, by name.

    Raises:
        InputError: one is out of range.
    """
    given = {name: getattr(options, name, None) for name in _OUTPUT_OPTIONS}
    for name, value in given.items():
        if value is not None and not 1 <= value <= _LARGEST:
            raise InputError(f"--{name.replace('_', '-')} {value}: expected 1 to {_LARGEST}")
    return {name: value for name, value in given.items() if value is not None}


def load_saved_model(folder: pathlib.Path) -> Predictor:
    """Imports TensorFlow, and loads an exported model."""
    import_tensorflow()
    from tf_transformer.predictors.saved_model_predictor import SavedModelPredictor

    return SavedModelPredictor(folder)


def load_models(models: "TrainedModels", dtype: str, **arguments: Any) -> "ModelPredictor":
    """Imports TensorFlow, and calls `ModelPredictor.load`; for a language model, too."""
    import_tensorflow(on_cpu=dtype == "int8")
    from tf_transformer.predictors.model_predictor import ModelPredictor

    return ModelPredictor.load(models, dtype, **arguments)
