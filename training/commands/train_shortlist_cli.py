"""The command `train-shortlist`."""

import argparse

from tf_transformer.command_line.command_options import (
    add_model_dir,
    check_translator,
    file_name,
    file_path,
)
from tf_transformer.command_line.quiet import import_tensorflow
from tf_transformer.errors import InputError
from tf_transformer.shortlists.table import MAX_CANDIDATES, shortlist_lines
from tf_transformer.storage.files import check_writable, replacing
from tf_transformer.storage.output_files import check_output_file


def add_commands(commands: argparse._SubParsersAction) -> None:
    """Adds the parser of `train-shortlist`."""
    parser = commands.add_parser(
        "train-shortlist",
        help="find the pieces that a search should consider for each source piece",
        description="Aligns a parallel text by the model's attention, and writes the most frequent "
        "translations of each source piece. With such a shortlist (--shortlist of translate, "
        "evaluate and export), a search computes the logits of a few hundred pieces instead of the "
        "whole vocabulary. The file has the format of CTranslate2's vmap.txt.",
    )
    add_model_dir(parser, "the trained model")
    parser.add_argument("--source", required=True, type=file_name, metavar="F", help="source text")
    parser.add_argument(
        "--target", required=True, type=file_name, metavar="F", help="its translations"
    )
    parser.add_argument(
        "--output", type=file_path, required=True, metavar="F", help="the shortlist to write"
    )
    parser.add_argument(
        "--candidates", type=int, default=50, metavar="N",
        help="largest number of translations of a source piece (default: %(default)s)",
    )  # fmt: skip
    parser.add_argument(
        "--always", type=int, default=100, metavar="N",
        help="number of the most frequent target pieces, which are candidates for every source "
        "(default: %(default)s)",
    )  # fmt: skip
    parser.add_argument(
        "--validation-source", type=file_name, metavar="F",
        help="another source text, to measure how many target pieces the shortlist covers",
    )  # fmt: skip
    parser.add_argument("--validation-target", type=file_name, metavar="F", help="its translations")
    parser.set_defaults(run=_run)


def _run(options):
    from tf_transformer.text.text_file import TextFile

    for name in ("candidates", "always"):
        value = getattr(options, name)
        if not 0 <= value <= MAX_CANDIDATES:
            raise InputError(f"--{name} {value}: expected 0 to {MAX_CANDIDATES}")
    if (options.validation_source is None) != (options.validation_target is None):
        raise InputError("--validation-source and --validation-target are valid only together")
    texts = [TextFile.parse(options.source, 1), TextFile.parse(options.target, 2)]
    validation = None
    if options.validation_source is not None:
        validation = (
            TextFile.parse(options.validation_source, 1),
            TextFile.parse(options.validation_target, 2),
        )
    check_writable(options.output)
    read = [file.path for file in (*texts, *(validation or ()))]
    check_output_file("--output", options.output, [options.model_dir], read)
    from tf_transformer.storage.trained_models import TrainedModels

    source, target = check_translator(TrainedModels((options.model_dir,)))
    import_tensorflow()
    from training.shortlists.attention import train_shortlist

    table, coverage = train_shortlist(
        options.model_dir,
        *texts,
        most=options.candidates,
        num_always=options.always,
        validation=validation,
    )
    with replacing(options.output) as path:
        lines = shortlist_lines(table, source, target)
        path.write_text("".join(lines), encoding="utf-8", newline="")
    print(
        f"{options.output}: {coverage.candidates:.0f} candidates for a sentence on average, among "
        f"them {100 * coverage.share:.2f} % of the target pieces of "
        f"{'the validation text' if validation else 'the same text'}"
    )
