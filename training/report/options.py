"""Options of the commands that write a report."""

import argparse
from typing import Any

from tf_transformer.command_line.command_options import file_name, file_path, text
from tf_transformer.errors import InputError
from tf_transformer.storage.files import check_writable


def add_report(parser: argparse.ArgumentParser, summary: str) -> None:
    """Adds `--report`.

    Args:
        parser: parser of the command.
        summary: what the page shows.
    """
    parser.add_argument(
        "--report", type=file_path, metavar="F", help=f"write a page to look at, {summary}"
    )


def add_comparison(parser: argparse.ArgumentParser) -> None:
    """Adds `--report` for translations, and the options of what is in it."""
    add_report(parser, "one .html file with all sentences")
    parser.add_argument(
        "--training-text", type=file_name, metavar="F",
        help="for the report: text of the target language that was trained on, for scores by the "
        "frequency of words",
    )  # fmt: skip
    parser.add_argument(
        "--languages", type=text, nargs=2, metavar=("SOURCE", "TARGET"),
        help="for the report: the languages, such as en de, to find negations that are lost",
    )  # fmt: skip


def check_report(options: argparse.Namespace) -> None:
    """Checks `--report`, and that the options of what is in it are not given without it.

    Raises:
        InputError: one of them is given alone, or the file's name does not end in .html.
        OSError: the file cannot be written.
    """
    if options.report is None:
        for name in ("training_text", "languages"):
            if getattr(options, name, None) is not None:
                raise InputError(f"--{name.replace('_', '-')} is for the report; give --report")
        return
    if options.report.suffix not in (".html", ".htm"):
        raise InputError(f"--report {options.report}: expected a name that ends in .html")
    check_writable(options.report)


def parse_comparison(options: argparse.Namespace, bleu_tokenizer: str) -> dict[str, Any]:
    """Returns what the options say about the report, as arguments of `ComparisonSettings`.

    Args:
        options: the parsed command line.
        bleu_tokenizer: sacreBLEU's name of the tokenizer for BLEU.

    Raises:
        InputError: the training text does not exist.
    """
    from tf_transformer.text.text_file import TextFile

    name = options.training_text
    source, target = options.languages or (None, None)
    return {
        "bleu_tokenizer": bleu_tokenizer,
        "training_text": name and TextFile.parse(name, default_column=2),
        "source_language": source,
        "target_language": target,
    }
