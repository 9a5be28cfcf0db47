"""`translate --markup`: translating an HTML or XML document as a whole.

TensorFlow is imported only after the document has been read and parsed.
"""

import argparse
import io
import pathlib
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from export.commands.options.documents import parse_document_languages
from export.commands.options.terms import TermLines, report_incomplete
from export.lines.line_batches import open_lines
from export.lines.line_output import check_output, open_output
from tf_transformer.command_line.command_options import text
from tf_transformer.command_line.predictor_options import open_predictor, row_options
from tf_transformer.command_line.reranking_options import RERANKING_OPTIONS
from tf_transformer.errors import InputError
from tf_transformer.predictors.predictor import Predictor
from tf_transformer.storage.files import name_in_errors

if TYPE_CHECKING:
    from tf_transformer.terms.glossary import Glossary

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
    for name in ("runner", *_EXCLUDED):
        if getattr(options, name):
            raise InputError(f"--{name.replace('_', '-')} is not valid with --markup")


def run_markup(
    options: argparse.Namespace,
    prepare: Callable[[bytes, str], bytes],
    model_dirs: Iterable[pathlib.Path],
    load: Callable[[], Predictor],
    terms: TermLines | None,
) -> None:
    """Translates a document.

    Args:
        options: the parsed command line.
        prepare: adds language tags to a text, or checks them.
        model_dirs: the model directories that are read.
        load: loads the model directories.
        terms: terms and protected spans, if there are any.

    Raises:
        InputError: the document is not valid, see `MarkupTranslator`; the message names it.
        OSError: a file cannot be read or written.
    """
    from export.markup.aligned_translation import translate_by_predictor
    from export.markup.markup_translator import MarkupTranslator

    with open_lines(options.input) as lines:
        if lines.column is not None:
            raise InputError(f"--input {options.input}: expected a document, not a column")
        files = (options.adapter, options.shortlist, options.terms)
        check_output(options.output, lines, list(model_dirs), files)
        with name_in_errors(lines.name):
            document = _read(lines.file)
        glossary, protect = (terms.glossary, terms.protect) if terms else (None, 0)

        def add_tags(text: str) -> str:
            return prepare(text.encode(), "a text of the document").decode()

        with open_predictor(options, load) as predictor:

            def translate(texts):
                translate_texts = translate_by_predictor(
                    predictor(),  # only if there is a text is a model loaded
                    row_options(options),
                    prepare=add_tags,
                    glossary=glossary,
                    protect=protect,
                    keep_capitals=options.keep_capitals,
                    is_english=parse_document_languages(options) == ("en",),
                )
                return translate_texts(texts)

            translator = MarkupTranslator(
                translate,
                markup=options.markup,
                attributes=options.translate_attributes,
                split=_splitting(options),
                are_translatable=_choosing(glossary),
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
    return sentence_splitter(parse_document_languages(options))


def _choosing(glossary: "Glossary | None") -> Callable[[Sequence[str]], Sequence[bool]]:
    """Returns what tells which texts may have to be translated: also those with terms."""
    from export.markup.segmentation import are_translatable

    def may_be_translatable(texts):
        flags = are_translatable(texts)
        if not glossary:
            return flags
        pairs = zip(flags, texts, strict=True)
        return [flag or bool(glossary.entries_for(text, True)) for flag, text in pairs]

    return may_be_translatable
