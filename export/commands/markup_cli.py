"""`translate --markup`: translating an HTML or XML document as a whole.

TensorFlow is imported only after the document has been read and parsed.
"""

import argparse
import contextlib
import functools
import io
import pathlib
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence

from export.commands.options.client import given_client_options
from export.commands.options.documents import given_document_languages
from export.commands.options.terms import TermLines, report_incomplete
from export.lines.line_batches import open_lines
from export.lines.line_output import check_output, open_output
from tf_transformer.command_line.command_options import given_models, given_search, text
from tf_transformer.command_line.quiet import import_tensorflow
from tf_transformer.command_line.reranking_options import RERANKING_OPTIONS
from tf_transformer.errors import InputError
from tf_transformer.storage.files import name_in_errors
from tf_transformer.text.language_tags import written_tags

# Options of `translate` that choose among several translations, or are for lines.
_EXCLUDED = (
    *("n_best", "shard", "xla"),
    *RERANKING_OPTIONS,
)
_READ_BYTES = 2**20


def add_markup_options(parser: argparse.ArgumentParser) -> None:
    """Adds the options of `translate` for documents with markup."""
    parser.add_argument(
        "--markup", choices=("html", "xml"),
        help="translate the input as one document, and put its tags back by the word alignment",
    )  # fmt: skip
    parser.add_argument(
        "--translate-attributes", type=text, nargs="+", default=[], metavar="NAME",
        help="with --markup, translate also the values of these attributes, such as alt and title",
    )  # fmt: skip


def check_markup(options: argparse.Namespace) -> None:
    """Checks that the options are valid with `--markup`, or without it.

    Raises:
        InputError: they are not.
    """
    if options.markup is None:
        if options.translate_attributes:
            raise InputError("--translate-attributes is valid only with --markup")
        return
    for name in ("runner", "saved_model", *_EXCLUDED):
        if getattr(options, name):
            raise InputError(f"--{name.replace('_', '-')} is not valid with --markup")
    for name in ("terms", "protect"):
        if getattr(options, name) and options.server is not None:
            option = f"--{name.replace('_', '-')}"
            raise InputError(f"{option} with --markup is valid only with --model-dir")


def run_markup(
    options: argparse.Namespace,
    prepare: Callable[[bytes, str], bytes],
    model_dirs: Iterable[pathlib.Path],
    shortlist: object,
    terms: TermLines | None,
) -> None:
    """Translates a document.

    Args:
        options: the parsed command line.
        prepare: adds language tags to a text, or checks them.
        model_dirs: the model directories that are read.
        shortlist: the shortlist, if there is one.
        terms: terms and protected spans, if there are any.

    Raises:
        InputError: the document is not valid, see `MarkupTranslator`; the message names it.
        OSError: a file cannot be read or written.
    """
    from export.markup.markup_translator import MarkupTranslator
    from export.markup.segmentation import are_translatable

    with open_lines(options.input) as lines:
        if lines.column is not None:
            raise InputError(f"--input {options.input}: expected a document, not a column")
        files = (options.adapter, options.shortlist, options.terms)
        check_output(options.output, lines, list(model_dirs), files)
        with name_in_errors(lines.name):
            document = _read(lines.file)
        with contextlib.ExitStack() as stack:

            @functools.cache
            def connected():
                # Only once there is a text, so that no model is loaded for nothing.
                if options.server is not None:
                    return stack.enter_context(_server(options))
                return _load(options, prepare, shortlist, terms)

            def translate(texts):
                return connected()(texts)

            translator = MarkupTranslator(
                translate,
                markup=options.markup,
                attributes=options.translate_attributes,
                split=_splitting(options),
                are_translatable=are_translatable if options.server else _choosing(options, terms),
            )
            try:
                translated = translator.translate_bytes(document)
            except InputError as error:
                raise InputError(f"{lines.name}: {error}") from error
        with open_output(options.output) as output:
            output.write(translated.data)
    if translated.num_truncated:
        print(
            "tf-transformer: texts that exceeded the model's length limit and were truncated: "
            f"{translated.num_truncated}",
            file=sys.stderr,
        )
    report_incomplete(translated.num_incomplete)


def _read(file: io.BufferedIOBase) -> bytes:
    """Reads a document, of no more bytes than those that show that it is too large."""
    from export.markup.markup_translator import MAX_BYTES

    chunks, size = [], 0
    while size <= MAX_BYTES and (chunk := file.read(_READ_BYTES)):
        chunks.append(chunk)
        size += len(chunk)
    if size > MAX_BYTES:
        raise InputError(f"--markup: expected a document of at most {MAX_BYTES:,} bytes")
    return b"".join(chunks)


def _splitting(options) -> Callable[[str], Sequence[str]] | None:
    """Returns what splits a text into sentences; None with `--no-split-sentences`."""
    from tf_transformer.documents.sentence_splitter import sentence_splitter

    if options.split_sentences is False:
        return None
    return sentence_splitter(given_document_languages(options))


def _choosing(options, terms) -> Callable[[Sequence[str]], Sequence[bool]]:
    """Returns what tells which texts to translate, and imports TensorFlow for the first text."""

    def are_translatable(texts):
        import_tensorflow(on_cpu=options.dtype == "int8")
        from export.markup.local_translation import translatable_by_model

        return translatable_by_model(*_given_terms(terms))(texts)

    return are_translatable


def _given_terms(terms):
    """Returns the glossary and the kinds of protected spans."""
    return (terms.glossary, terms.protect) if terms else (None, 0)


@contextlib.contextmanager
def _server(options) -> Iterator[Callable]:
    from export.markup.server_translation import translate_by_server
    from tf_transformer.predictors.client import Client

    languages = [x for x in (options.target_language, options.source_language) if x is not None]
    tags = written_tags(*languages) if languages else ""
    with Client(options.server, **given_client_options(options)) as client:
        yield translate_by_server(client, given_search(options), tags, options.keep_capitals)


def _load(options, prepare, shortlist, terms) -> Callable:
    import_tensorflow(on_cpu=options.dtype == "int8")
    from export.markup.local_translation import translate_by_model
    from tf_transformer.inference.translator import Translator

    translator = Translator(
        *given_models(options).load(options.dtype or "float32"),
        **given_search(options),
        end_pieces=options.end_piece,
        shortlist=shortlist,
    )

    def add_tags(text: str) -> str:
        return prepare(text.encode(), "a text of the document").decode()

    glossary, protect = _given_terms(terms)
    return translate_by_model(
        translator,
        add_tags,
        glossary=glossary,
        protect=protect,
        keep_capitals=options.keep_capitals,
        is_english=given_document_languages(options) == ("en",),
    )
