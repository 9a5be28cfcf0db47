"""The command `align`.

TensorFlow is imported only after all arguments and files have been checked.
"""

import argparse

from tf_transformer.command_line.command_options import (
    add_dtype,
    add_model_dirs,
    check_translator,
    file_name,
    file_path,
    folder,
    given_models,
)
from tf_transformer.command_line.interruption import interrupted_by_signals
from tf_transformer.command_line.quiet import import_tensorflow
from tf_transformer.errors import InputError
from tf_transformer.storage.files import check_writable
from tf_transformer.storage.output_files import check_output_file
from tf_transformer.word_alignment.symmetrization import SYMMETRIZATIONS

_DEFAULT_SYMMETRIZATION = "grow-diag-final-and"


def add_commands(commands: argparse._SubParsersAction) -> None:
    """Adds the parser of `align`."""
    parser = commands.add_parser(
        "align",
        help="align the words of given translations by a model's attention",
        description="Writes for each pair of lines the links of their words, such as `0-0 1-2`: "
        "target word 2 attends most to source word 1, both counted from 0 and separated by white "
        "space, in a form that `train --alignments` takes. The same command resumes an interrupted "
        "run.",
    )
    add_model_dirs(parser)
    parser.add_argument("--source", required=True, type=file_name, metavar="F", help="source text")
    parser.add_argument(
        "--target", required=True, type=file_name, metavar="F", help="its translations"
    )
    parser.add_argument(
        "--output", type=file_path, required=True, metavar="F", help="the alignments to write"
    )
    parser.add_argument(
        "--reverse-model-dir", type=folder, nargs="+", metavar="DIR",
        help="a model from the target to the source, whose links are combined with the first's",
    )  # fmt: skip
    parser.add_argument(
        "--symmetrize", choices=SYMMETRIZATIONS,
        help="with --reverse-model-dir, how the links of both directions are combined "
        f"(default: {_DEFAULT_SYMMETRIZATION})",
    )  # fmt: skip
    parser.add_argument(
        "--reference", type=file_name, metavar="F",
        help="alignments by hand, with `i-j` for sure and `i?j` for possible links; prints the "
        "alignment error rate",
    )  # fmt: skip
    add_dtype(parser)
    parser.set_defaults(run=_run)


@interrupted_by_signals()
def _run(options):
    from tf_transformer.storage.trained_models import TrainedModels
    from tf_transformer.text.parallel_text import check_parallel, digest
    from tf_transformer.text.text_file import TextFile
    from tf_transformer.word_alignment.pharaoh import check_alignments

    if options.symmetrize and not options.reverse_model_dir:
        raise InputError("--symmetrize is valid only with --reverse-model-dir")
    source, target = TextFile.parse(options.source, 1), TextFile.parse(options.target, 2)
    reference = TextFile.parse(options.reference) if options.reference is not None else None
    models, reverse = given_models(options), None
    if options.reverse_model_dir:
        reverse = TrainedModels(tuple(options.reverse_model_dir))
    check_writable(options.output)
    read = [file.path for file in (source, target, *([reference] if reference else []))]
    model_dirs = [*models.directories, *(reverse.directories if reverse else ())]
    check_output_file("--output", options.output, model_dirs, read)
    check_translator(models)
    if reverse:
        check_translator(reverse)
    check_parallel(source, target)
    if reference:
        check_alignments(reference, source, target)
    text_digest = digest(source, target)
    import_tensorflow()
    from export.alignment.aligned_text import (
        TextAlignment,
        error_rate,
        num_unaligned,
        write_alignments,
    )

    method = options.symmetrize or _DEFAULT_SYMMETRIZATION
    alignment = TextAlignment(models, source, target, reverse, method, options.dtype)
    write_alignments(alignment, options.output, text_digest)
    unaligned = num_unaligned(alignment, options.output)
    print(f"{options.output}: word alignments")
    if unaligned:
        print(
            f"{unaligned:,} pairs have none: they are longer than the model's limit, or their "
            "words in SentencePiece are not those that white space separates"
        )
    if reference:
        rate = error_rate(TextFile(options.output), reference)
        print(
            f"alignment error rate {100 * rate.aer:.2f} %: precision {100 * rate.precision:.2f} %, "
            f"recall {100 * rate.recall:.2f} %"
        )
