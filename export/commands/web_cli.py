"""The command `web`, a web page to try translations; with a server it needs no TensorFlow."""

import argparse
import functools
import importlib.util
import logging
import sys
from typing import TYPE_CHECKING

from export.commands.options.confidence import add_confidence_file, read_confidence
from export.commands.options.documents import add_document_languages, parse_document_languages
from export.commands.options.predictors import load_model_predictor
from tf_transformer.command_line.client_options import add_client_options, parse_client_options
from tf_transformer.command_line.command_options import (
    add_dtype,
    add_end_pieces,
    add_model_dirs,
    add_search_options,
    check_translator,
    parse_models,
    parse_search,
    text,
)
from tf_transformer.command_line.interruption import interrupted_by_signals
from tf_transformer.command_line.predictor_options import (
    add_exported_model,
    check_place,
    open_predictor,
)
from tf_transformer.command_line.tag_options import parse_exported
from tf_transformer.errors import InputError
from tf_transformer.storage.saved_model import ExportedLanguages

if TYPE_CHECKING:  # `--help` must not import SentencePiece
    from tf_transformer.confidence.calibration import Calibration

_PACKAGES = ("starlette", "uvicorn", "prometheus_client")
# Fewer than for `translate`: someone waits for the answer.
_RETRIES = 2


def add_commands(commands: argparse._SubParsersAction) -> None:
    """Adds the parser of `web`."""
    parser = commands.add_parser(
        "web",
        help="serve a web page to try translations",
        description="Serves a page on which sentences are translated by a model directory, an "
        "exported model or a TF Serving, with the n best translations, alignments, confidences and "
        "search options; a JSON API; and metrics for Prometheus. --beam-size and --length-penalty "
        "are for requests that give none; the beam size is also the largest of a request. Only "
        "translation is passed on, with limits on sizes and concurrent requests. There is no "
        "authentication.",
    )
    source = parser.add_mutually_exclusive_group(required=True)
    add_model_dirs(parser, source)
    add_exported_model(source)
    add_client_options(parser)
    add_search_options(parser)
    add_end_pieces(parser)
    add_dtype(parser)
    add_confidence_file(parser)
    parser.add_argument(
        "--host", type=text, default="127.0.0.1", metavar="H",
        help="address to listen on; 0.0.0.0 for every network (default: %(default)s)",
    )  # fmt: skip
    parser.add_argument(
        "--port", type=_port, default=8080, metavar="P",
        help="port of the page; 0 for any free one (default: %(default)s)",
    )  # fmt: skip
    parser.add_argument(
        "--allowed-hosts", type=text, nargs="+", metavar="H",
        help="names by which browsers may request the page, such as translate.example.com "
        "(default: localhost and --host; any if --host is every network)",
    )  # fmt: skip
    parser.add_argument(
        "--metrics-port", type=_port, metavar="P",
        help="port of the metrics, apart from the page (default: that of the page)",
    )  # fmt: skip
    for name, default, what in (
        ("sentences", 50, "sentences per request"),
        ("characters", 5000, "characters per request"),
        ("concurrent", 8, "requests translated at a time; others get status 503"),
    ):
        parser.add_argument(
            f"--max-{name}", type=int, default=default, metavar="N",
            help=f"maximum number of {what} (default: %(default)s)",
        )  # fmt: skip
    parser.add_argument(
        "--split-sentences", action=argparse.BooleanOptionalAction, default=True,
        help="translate each sentence of a line on its own, by the signature `document` where the "
        "server has it (default); --no-split-sentences translates a line as one",
    )  # fmt: skip
    add_document_languages(parser, "with --model-dir, or without `document`")
    for side in ("target", "source"):
        parser.add_argument(
            f"--{side}-languages", type=text, nargs="+", default=[], metavar="L",
            help=f"{side} languages to choose from, for a multilingual model that needs their tags",
        )  # fmt: skip
    parser.set_defaults(run=_run_web, beam_size=None, length_penalty=None, dtype=None)


def _port(value: str) -> int:
    if not (value.isascii() and value.isdecimal() and len(value) < 6 and int(value) < 2**16):
        raise argparse.ArgumentTypeError(f"{value[:20]}: expected a port, 0 to 65535")
    return int(value)


@interrupted_by_signals()
def _run_web(options):
    from export.web.offers import find_offers
    from export.web.settings import WebSettings
    from export.web.translation_request import check_translation

    calibration, known_languages = _check_options(options)
    given = parse_client_options(options)
    settings = WebSettings(
        model=given.get("model", WebSettings().model),
        max_sentences=options.max_sentences,
        max_characters=options.max_characters,
        max_concurrent=options.max_concurrent,
        target_languages=tuple(options.target_languages),
        source_languages=tuple(options.source_languages),
        known_languages=known_languages,
        splits_sentences=options.split_sentences,
        document_languages=parse_document_languages(options),
        allowed_hosts=tuple(options.allowed_hosts or _default_hosts(options.host)),
        search=parse_search(options),
    )
    settings.check()
    logging.basicConfig(format="%(asctime)s %(message)s", stream=sys.stderr)
    # All sentences of a request can be sent at once, so that one deadline covers them.
    client_options = {
        "concurrency": max(settings.max_sentences, settings.max_concurrent),
        "retries": _RETRIES,
    }
    load = functools.partial(load_model_predictor, options, calibration=calibration)
    with open_predictor(options, load, **client_options) as predictor:
        _check_packages()
        from export.web.server import run_server

        found = predictor()
        if options.server is None:  # a server may be started later, and load another version
            check_translation(find_offers(found.signatures, settings.search), settings)
        run_server(found, settings, options.host, options.port, options.metrics_port)


def _check_options(options) -> "tuple[Calibration | None, ExportedLanguages | None]":
    """Checks that the options go with where the model is; reads the confidence and languages."""
    check_place(options, ("ensemble_weights", "adapter", "end_piece", "dtype", "confidence"))
    parse_search(options)
    if options.model_dir is None:
        return None, parse_exported(options)
    models = parse_models(options)
    source, _ = check_translator(models, options.end_piece)
    languages = ExportedLanguages(list(source.languages), models.config().num_tags)
    return read_confidence(options, models), languages


def _default_hosts(host):
    if host in ("0.0.0.0", "::", ""):
        return ["*"]
    return ["localhost", "127.0.0.1", "::1", "[::1]", host]


def _check_packages():
    missing = [name for name in _PACKAGES if importlib.util.find_spec(name) is None]
    if missing:
        raise InputError(f"web needs {', '.join(missing)}: pip install 'tf-transformer[web]'")
