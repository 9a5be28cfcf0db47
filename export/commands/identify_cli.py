"""The command `identify`, which needs no TensorFlow."""

import argparse

from export.lines.line_batches import open_lines
from export.lines.line_output import check_output, open_output, write_line
from tf_transformer.command_line.command_options import file_name, file_path


def add_commands(commands: argparse._SubParsersAction) -> None:
    """Adds the parser of `identify`."""
    parser = commands.add_parser(
        "identify",
        help="identify the language of lines of text",
        description="Writes for each line its most probable language, a tab and the probability. "
        "The language is `und`, undetermined, if it is less probable than the threshold that the "
        "classifier was trained with, or if the line has no letters. Each line is answered when it "
        "arrives.",
    )
    parser.add_argument(
        "--language-id", type=file_path, required=True, metavar="F",
        help="a classifier of `train-language-id`",
    )  # fmt: skip
    parser.add_argument(
        "--input", type=file_name, metavar="F",
        help="lines of text: plain, .gz or .zst; F.tsv:2 is column 2 of a TSV file (default, and "
        "-: standard input)",
    )  # fmt: skip
    parser.set_defaults(run=_run)


def _run(options):
    from tf_transformer.language_id.classifier_file import read_classifier

    with open_lines(options.input) as lines, open_output(None) as output:
        check_output(None, lines)
        classifier = read_classifier(options.language_id)
        for batch in lines.batches(lambda line, where: line):
            found = classifier.identify(batch)
            for language, probability in zip(
                found.languages, found.probabilities.tolist(), strict=True
            ):
                write_line(output, f"{language}\t{probability:.4f}")
            output.flush()
