"""Where a command finds its model: a model directory, a SavedModel or a server."""

import argparse
import contextlib
import functools
import pathlib
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from export.commands.options.client import given_client_options
from export.commands.options.documents import given_document_languages
from tf_transformer.command_line.command_options import (
    folder,
    given_models,
    given_search,
    text,
)
from tf_transformer.command_line.quiet import import_tensorflow
from tf_transformer.predictors.predictor import Predictor

if TYPE_CHECKING:  # `--help` must not import SentencePiece
    from tf_transformer.confidence.calibration import Calibration
    from tf_transformer.predictors.model_predictor import ModelPredictor
    from tf_transformer.shortlists.table import ShortlistTable


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
    if options.server is not None:
        from export import Client

        given = given_client_options(options) | client_options
        with Client(options.server, **given) as client:
            yield lambda: client
    elif options.saved_model is not None:
        yield functools.cache(lambda: _load_saved_model(options.saved_model))
    else:
        yield functools.cache(load)


def row_options(options: argparse.Namespace) -> dict[str, Any]:
    """Returns the search options of each row.

    Args:
        options: the parsed command line; a model directory is loaded for the search that it asks
            for, so that its rows need none.
    """
    return {} if options.model_dir else given_search(options)


def _load_saved_model(folder: pathlib.Path) -> Predictor:
    import_tensorflow()
    from tf_transformer.predictors.saved_model_predictor import SavedModelPredictor

    return SavedModelPredictor(folder)


def load_model_predictor(
    options: argparse.Namespace,
    *,
    shortlist: "ShortlistTable | None" = None,
    calibration: "Calibration | None" = None,
    xla: str = "off",
) -> "ModelPredictor":
    """Loads the model directory, or those of an ensemble, for the search of the options.

    Args:
        options: the parsed command line, with the options of `add_model_dirs`, `add_dtype`,
            `add_search_options`, `add_end_pieces` and `add_document_languages`.
        shortlist: the shortlist, if there is one.
        calibration: that of the model's confidences, if there is one.
        xla: see `ModelPredictor`.

    Raises:
        InputError: the model cannot be loaded.
    """
    import_tensorflow(on_cpu=options.dtype == "int8")
    from tf_transformer.inference.translator import Translator
    from tf_transformer.predictors.model_predictor import ModelPredictor
    from tf_transformer.tasks.parts import Parts

    loaded = given_models(options).load(options.dtype or "float32")

    def make_parts(shapes):
        translator = Translator(
            *loaded,
            **given_search(options),
            end_pieces=options.end_piece,
            shortlist=shortlist,
            compiled_shapes=shapes,
        )
        languages = given_document_languages(options)
        return Parts(translator, calibration=calibration, document_languages=languages)

    names = ", ".join(map(str, options.model_dir))
    return ModelPredictor(make_parts, f"model directory {names}", xla)
