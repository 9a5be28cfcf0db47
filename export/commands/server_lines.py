"""Translating lines with a server."""

import argparse
import contextlib
from collections.abc import Iterator

from export.commands.options.client import given_client_options
from export.lines.line_batches import BATCH_SIZE
from export.lines.line_translations import Translate
from tf_transformer.command_line.command_options import given_search
from tf_transformer.decoding.search_options import SEARCH_OPTIONS


@contextlib.contextmanager
def connect(options: argparse.Namespace) -> Iterator[tuple[Translate, int]]:
    """Connects to the server of `translate --server`.

    Args:
        options: the parsed command line.

    Yields:
        What translates lines, and the number of lines to translate at once.

    Raises:
        InputError: the address or an option is not valid.
    """
    from tf_transformer.predictors.client import Client

    given = given_search(options)
    signature = "translate_options" if given else "serving_default"
    if options.split_sentences:
        signature = "document_options" if given or options.keep_capitals else "document"
    search = {option.name: option.unset for option in SEARCH_OPTIONS} | given
    search["keep_capitals"] = options.keep_capitals
    with Client(options.server, **given_client_options(options)) as client:

        def translate(lines, numbers):
            found = client.signatures.get(signature)  # None is an error of `translate_batches`
            known = search.keys() & found.inputs.keys() if found else ()
            inputs = {name: search[name] for name in known}
            for batch in client.translate_batches(lines, signature, inputs, numbers):
                for translation in batch:
                    yield [translation]

        # Enough lines for all concurrent requests.
        yield translate, max(BATCH_SIZE, client.max_batch_size * client.concurrency)
