"""Rows of a signature with more outputs than a translation, computed by a server."""

import argparse
import contextlib
import math
from collections.abc import Callable, Iterable, Iterator, Mapping

from export.commands.options.client import given_client_options
from export.lines.line_batches import BATCH_SIZE
from tf_transformer.command_line.command_options import given_search
from tf_transformer.decoding.search_options import SEARCH_OPTIONS
from tf_transformer.errors import InputError
from tf_transformer.printable import shown

# What is called with the inputs of lines, and their numbers; it yields outputs by name.
Call = Callable[[dict[str, list], list[int]], Iterable[Mapping[str, list]]]


@contextlib.contextmanager
def connect_to_signature(
    options: argparse.Namespace, name: str, outputs: Mapping[str, str], needed: str
) -> Iterator[tuple[Call, int]]:
    """Connects to the server of `translate --server`, for one of its signatures.

    Args:
        options: the parsed command line; its search options are inputs of the signature.
        name: the signature.
        outputs: the outputs that are used, with their data types; they have one value per row, and
            `score` is one of them.
        needed: which options need the signature and how it is exported, for the error message.

    Yields:
        What returns the outputs for inputs, and the number of lines to translate at once.

    Raises:
        InputError: the address or an option is not valid; and in the call, the server has no such
            signature.
        OSError: in the call, a score is not finite, or as `Client.predict_batches`.
    """
    from tf_transformer.predictors.client import Client

    search = {option.name: option.unset for option in SEARCH_OPTIONS} | given_search(options)
    with Client(options.server, **given_client_options(options)) as client:

        def call(inputs, numbers):
            signature = client.signatures.get(name)
            known = _check_signature(signature, options.server, name, outputs, needed)
            num_lines = len(inputs["text"])
            given = {key: [value] * num_lines for key, value in search.items() if key in known}
            for batch in client.predict_batches(inputs | given, name, numbers):
                if not all(map(math.isfinite, batch["score"])):
                    raise OSError(f"{options.server}: expected finite scores, got {batch['score']}")
                yield batch

        # Enough lines for all concurrent requests.
        yield call, max(BATCH_SIZE, client.max_batch_size * client.concurrency)


def _check_signature(signature, server, name, outputs, needed):
    """Returns the inputs of a signature, after a check of its outputs."""
    from tf_transformer.predictors.signature import TensorSpec

    if signature is None:
        raise InputError(f"{server}: the model has no signature {name!r}, which {needed}")
    expected = {key: TensorSpec(data_type, (None,)) for key, data_type in outputs.items()}
    found = {key: signature.outputs.get(key) for key in outputs}
    if found != expected:
        raise InputError(
            f"{server}: expected a signature {name!r} with the outputs {', '.join(outputs)}, one "
            f"value per row. Received: {shown(found)}"
        )
    return signature.inputs
