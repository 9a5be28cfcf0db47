"""The command `identify`, which needs no TensorFlow, except for a SavedModel."""

import argparse
import contextlib
from collections.abc import Callable, Iterator

from export.lines.line_batches import open_lines
from export.lines.line_output import check_output, open_output, write_line
from tf_transformer.command_line.client_options import add_client_options, check_client_options
from tf_transformer.command_line.command_options import file_name, file_path
from tf_transformer.command_line.predictor_options import add_exported_model, open_exported_model
from tf_transformer.predictors.answers import answer


def add_commands(commands: argparse._SubParsersAction) -> None:
    """Adds the parser of `identify`."""
    parser = commands.add_parser(
        "identify",
        help="identify the language of lines of text",
        description="Writes for each line its most probable language, a tab and the probability. "
        "The language is `und`, undetermined, if it is less probable than the threshold that the "
        "classifier was trained with, or if the line has no letters. Each line is answered when it "
        "arrives. A classifier is a file of its own; no model directory has one.",
    )
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument(
        "--language-id", type=file_path, metavar="F", help="a classifier of `train-language-id`"
    )
    add_exported_model(source)
    add_client_options(parser)
    parser.add_argument(
        "--input", type=file_name, metavar="F",
        help="lines of text: plain, .gz or .zst; F.tsv:2 is column 2 of a TSV file (default, and "
        "-: standard input)",
    )  # fmt: skip
    parser.set_defaults(run=_run)


def _run(options):
    check_client_options(options)
    with open_lines(options.input) as lines, open_output(None) as output:
        check_output(None, lines)
        with _open_classifier(options) as identify:
            for batch in lines.batches(lambda line, where: line):
                for language, probability in identify(batch):
                    write_line(output, f"{language}\t{probability:.4f}")
                output.flush()


@contextlib.contextmanager
def _open_classifier(options) -> Iterator[Callable[[list[bytes]], Iterator[tuple[str, float]]]]:
    """Yields what returns the languages of lines and their probabilities."""
    if options.language_id is not None:
        from tf_transformer.language_id.classifier_file import read_classifier

        classifier = read_classifier(options.language_id)

        def identify(lines):
            found = classifier.identify(lines)
            return zip(found.languages, found.probabilities.tolist(), strict=True)

        yield identify
        return
    with open_exported_model(options) as predictor:

        def ask(lines):
            for batch in answer(predictor(), "language", {"text": lines}):
                yield from zip(batch["language"], batch["probability"], strict=True)

        yield ask
