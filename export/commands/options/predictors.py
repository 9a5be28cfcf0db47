"""Where a command finds its model: a model directory, a SavedModel or a server."""

import argparse
import contextlib
import functools
from collections.abc import Callable, Iterator

from export.commands.options.client import given_client_options
from tf_transformer.command_line.quiet import import_tensorflow
from tf_transformer.predictors.predictor import Predictor


@contextlib.contextmanager
def open_predictor(
    options: argparse.Namespace, load: Callable[[], Predictor]
) -> Iterator[Callable[[], Predictor]]:
    """Yields a function that returns the predictor, loaded in its first call.

    Args:
        options: the parsed command line, with `--server` and `--saved-model`.
        load: loads the model directory.

    Raises:
        InputError: the address of the server or an option is not valid; in the call, the model
            cannot be loaded.
    """
    if options.server is not None:
        from export import Client

        with Client(options.server, **given_client_options(options)) as client:
            yield lambda: client
    elif options.saved_model is not None:
        yield functools.cache(lambda: _load_saved_model(options.saved_model))
    else:
        yield functools.cache(load)


def _load_saved_model(folder) -> Predictor:
    import_tensorflow()
    from tf_transformer.predictors.saved_model_predictor import SavedModelPredictor

    return SavedModelPredictor(folder)
