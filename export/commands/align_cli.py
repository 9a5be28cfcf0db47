"""The command `align`.

TensorFlow is imported only after all arguments and files have been checked.
"""

import argparse
import contextlib
import functools
from typing import TYPE_CHECKING

from tf_transformer.command_line.client_options import add_client_options, check_client_options
from tf_transformer.command_line.command_options import (
    add_dtype,
    add_model_dirs,
    check_translator,
    file_name,
    file_path,
    folder,
    parse_models,
    text,
)
from tf_transformer.command_line.interruption import interrupted_by_signals
from tf_transformer.command_line.predictor_options import (
    add_exported_model,
    check_local,
    load_models,
    model_facts,
    open_exported_model,
)
from tf_transformer.command_line.tag_options import parse_exported
from tf_transformer.errors import InputError
from tf_transformer.storage.files import check_writable
from tf_transformer.storage.output_files import check_output_file
from tf_transformer.word_alignment.symmetrization import SYMMETRIZATIONS

if TYPE_CHECKING:
    from export.alignment.aligned_text import AlignmentModel

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
    models = parser.add_mutually_exclusive_group(required=True)
    add_model_dirs(parser, models)
    add_exported_model(models)
    add_client_options(parser)
    parser.add_argument("--source", required=True, type=file_name, metavar="F", help="source text")
    parser.add_argument(
        "--target", required=True, type=file_name, metavar="F", help="its translations"
    )
    parser.add_argument(
        "--output", type=file_path, required=True, metavar="F", help="the alignments to write"
    )
    reverse = parser.add_mutually_exclusive_group()
    reverse.add_argument(
        "--reverse-model-dir", type=folder, nargs="+", metavar="DIR",
        help="a model from the target to the source, whose links are combined with the first's",
    )  # fmt: skip
    reverse.add_argument(
        "--reverse-saved-model", type=folder, metavar="DIR", help="the same, exported"
    )
    reverse.add_argument(
        "--reverse-server", type=text, metavar="HOST:PORT",
        help="the same, served by a TF Serving; the other options of requests are for both",
    )  # fmt: skip
    parser.add_argument(
        "--reverse-model", type=text, metavar="NAME",
        help="with --reverse-server, name of the model there (default: translator)",
    )  # fmt: skip
    parser.add_argument(
        "--symmetrize", choices=SYMMETRIZATIONS,
        help="with a reverse model, how the links of both directions are combined "
        f"(default: {_DEFAULT_SYMMETRIZATION})",
    )  # fmt: skip
    parser.add_argument(
        "--reference", type=file_name, metavar="F",
        help="alignments by hand, with `i-j` for sure and `i?j` for possible links; prints the "
        "alignment error rate",
    )  # fmt: skip
    add_dtype(parser)
    parser.set_defaults(run=_run, dtype=None)


@interrupted_by_signals()
def _run(options):
    from tf_transformer.text.parallel_text import check_parallel, digest
    from tf_transformer.text.text_file import TextFile
    from tf_transformer.word_alignment.pharaoh import check_alignments

    reverse = _reverse(options)
    _check_options(options, reverse)
    source, target = TextFile.parse(options.source, 1), TextFile.parse(options.target, 2)
    reference = TextFile.parse(options.reference) if options.reference is not None else None
    directions = [options, *([reverse] if reverse else [])]
    check_writable(options.output)
    read = [file.path for file in (source, target, *([reference] if reference else []))]
    model_dirs = [path for direction in directions for path in direction.model_dir or ()]
    check_output_file("--output", options.output, model_dirs, read)
    with contextlib.ExitStack() as stack:
        models = [_model(direction, stack) for direction in directions]
        check_parallel(source, target)
        if reference:
            check_alignments(reference, source, target)
        text_digest = digest(source, target)
        from export.alignment.aligned_text import (
            TextAlignment,
            error_rate,
            num_unaligned,
            write_alignments,
        )

        method = options.symmetrize or _DEFAULT_SYMMETRIZATION
        dtype = options.dtype or "float32" if model_dirs else None
        back = models[1] if reverse else None
        alignment = TextAlignment(models[0], source, target, back, method, dtype)
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


def _reverse(options) -> argparse.Namespace | None:
    """Returns the options that name the reverse model, under the names of the first one's."""
    names = ("model_dir", "saved_model", "server", "model")
    given = {name: getattr(options, f"reverse_{name}") for name in names}
    if given["model"] and not given["server"]:
        raise InputError("--reverse-model is valid only with --reverse-server")
    if not any(given.values()):
        return None
    return argparse.Namespace(**vars(options) | given | {"ensemble_weights": None, "adapter": None})


def _check_options(options, reverse):
    if options.symmetrize and reverse is None:
        raise InputError(
            "--symmetrize is valid only with --reverse-model-dir, --reverse-saved-model or "
            "--reverse-server"
        )
    check_local(options, ("ensemble_weights", "adapter"))
    has_model_dir = options.model_dir or (reverse and reverse.model_dir)
    if options.dtype and not has_model_dir:
        raise InputError("--dtype is valid only with --model-dir or --reverse-model-dir")
    if reverse is None or reverse.server is None:
        check_client_options(options)
    elif options.model and options.server is None:
        raise InputError("--model is valid only with --server")


def _model(options, stack: contextlib.ExitStack) -> "AlignmentModel":
    """Returns the model of a direction, after checks of a model directory."""
    from export.alignment.aligned_text import AlignmentModel

    if options.model_dir is None:
        predictor = stack.enter_context(open_exported_model(options))
        return AlignmentModel(predictor, model_facts(options), *(parse_exported(options) or ()))
    models = parse_models(options)
    vocabulary, _ = check_translator(models)
    return AlignmentModel(
        functools.partial(load_models, models, options.dtype or "float32"),
        model_facts(options),
        vocabulary.languages,
        models.config().num_tags,
    )
