"""The command that compares translations of any systems: compare."""

import argparse
import os

from tf_transformer.command_line.command_options import (
    BLEU_TOKENIZERS,
    MORE_BLEU_TOKENIZERS,
    file_name,
    file_path,
    text,
)
from tf_transformer.command_line.standard_streams import standard_output
from tf_transformer.errors import InputError
from tf_transformer.printable import printable
from tf_transformer.storage.files import check_writable, replacing
from tf_transformer.storage.json_files import write_json
from tf_transformer.storage.output_files import check_output_file
from training.report.options import add_comparison, check_report, parse_comparison


def add_commands(commands: argparse._SubParsersAction) -> None:
    """Adds the parser of `compare`."""
    parser = commands.add_parser(
        "compare",
        help="compare translations of any systems; a page with every sentence",
        description="Scores translations of a test set, one file for each system, with confidence "
        "intervals and the significance of their differences. --report writes a page to look at: "
        "scores by length, by word frequency and by class of error, and every sentence with its "
        "differences. Needs no model and no network.",
    )
    parser.add_argument("reference", type=file_name, metavar="REF", help="reference translations")
    parser.add_argument(
        "hypotheses", type=file_name, nargs="+", metavar="HYP", help="translations of each system"
    )
    parser.add_argument("--source", type=file_name, metavar="F", help="source sentences")
    parser.add_argument(
        "--more-references", type=file_name, nargs="+", action="extend", default=[], metavar="REF",
        help="other reference translations of the same text",
    )  # fmt: skip
    parser.add_argument(
        "--names", type=text, nargs="+", metavar="NAME",
        help="names of the systems (default: those of the files)",
    )  # fmt: skip
    parser.add_argument(
        "--tokenize", default="13a", choices=(*BLEU_TOKENIZERS, *MORE_BLEU_TOKENIZERS),
        help="sacreBLEU's tokenizer for BLEU; zh for Chinese (default: %(default)s)",
    )  # fmt: skip
    add_comparison(parser)
    parser.add_argument("--json", type=file_path, metavar="F", help="write the scores as JSON")
    parser.set_defaults(run=_run)


def _run(options):
    check_report(options)
    if options.json:
        check_writable(options.json)
    standard_output()
    from tf_transformer.text.text_file import TextFile
    from training.report.compared_texts import ComparedTexts, system_names

    references, hypotheses = (
        [TextFile.parse(name, default_column=2) for name in names]
        for names in ([options.reference, *options.more_references], options.hypotheses)
    )
    source = options.source and TextFile.parse(options.source, default_column=1)
    given = parse_comparison(options, options.tokenize)
    names = system_names(hypotheses, options.names)
    _check_outputs(options, [*references, *hypotheses, source, given["training_text"]])
    texts = ComparedTexts(
        source=list(source.lines()) if source else None,
        references=[list(file.lines()) for file in references],
        systems={name: list(file.lines()) for name, file in zip(names, hypotheses, strict=True)},
    )
    from training.report.comparison_report import ComparisonSettings, compare
    from training.report.html_page import write_page
    from training.report.score_table import score_table

    files = [f"reference: {', '.join(map(str, references))}"]
    files += [f"source: {source}"] if source else []
    report = compare(texts, ComparisonSettings(**given, facts=files))
    # First, so that a reader of standard output that ends early loses no file.
    if options.report:
        write_page(options.report, report.as_html())
    if options.json:
        with replacing(options.json) as path:
            write_json(path, report.as_dict())
    print(score_table(names, report.metrics))
    if options.report:
        print(f"\nReport: {printable(str(options.report))}")


def _check_outputs(options, files):
    """Refuses outputs that would replace an input or each other."""
    inputs = [file.path for file in files if file]
    for name in ("report", "json"):
        if path := getattr(options, name):
            check_output_file(f"--{name}", path, inputs=inputs)
    if options.report and options.json:
        one, other = map(os.path.realpath, (options.report, options.json))
        if one == other:
            raise InputError(f"--json {options.json} is also --report; give another one")
