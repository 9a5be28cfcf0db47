"""The commands that make synthetic parallel text: distill and back-translate.

TensorFlow is imported only after all arguments and files have been checked.
"""

import argparse
import pathlib
import shlex

from tf_transformer.command_line.command_options import (
    add_dtype,
    add_model_dirs,
    add_search_options,
    check_translator,
    folder,
    given_models,
    given_search,
    text,
)
from tf_transformer.command_line.interruption import interrupted_by_signals
from tf_transformer.command_line.quiet import import_tensorflow
from tf_transformer.errors import InputError
from tf_transformer.storage.files import check_folder
from tf_transformer.storage.output_files import check_output_file

_KEPT = ("best", "bleu", "chrf")
# Of TensorFlow's random numbers, together with a line's number.
_LARGEST_SEED = 2**22


def add_commands(commands: argparse._SubParsersAction) -> None:
    """Adds the parsers of `distill` and `back-translate`."""
    _add_distill(commands)
    _add_back_translate(commands)


def _add_distill(commands):
    parser = commands.add_parser(
        "distill",
        help="translate a training text with teachers, for a student to learn from",
        description="Writes DIR/train.source and DIR/train.target: for each line the original pair "
        "and the translations of the teachers. The same command resumes an interrupted run.",
    )
    for name, what in (
        ("teacher", "a model that translates the source; several are an ensemble; repeatable"),
        ("reverse-teacher", "a model that translates the target into the source; repeatable"),
    ):
        parser.add_argument(
            f"--{name}", type=folder, nargs="+", action="append", default=[], metavar="DIR",
            help=what,
        )  # fmt: skip
    parser.add_argument("--source", required=True, metavar="F", help="source of the training text")
    parser.add_argument("--target", required=True, metavar="F", help="target of the training text")
    _add_output(parser)
    parser.add_argument(
        "--keep", choices=_KEPT, default="best",
        help="the translation with the best score or, of as many as the beam is wide, the one with "
        "the highest sentence BLEU or chrF against the reference (default: %(default)s)",
    )  # fmt: skip
    parser.add_argument(
        "--only-synthetic", action="store_true", help="leave out the original pairs"
    )
    add_search_options(parser)
    add_dtype(parser)
    parser.set_defaults(run=_run_distill)


def _add_back_translate(commands):
    parser = commands.add_parser(
        "back-translate",
        help="make sources for target text with a model of the reverse direction",
        description="Writes DIR/train.source and DIR/train.target. The same command resumes an "
        "interrupted run.",
    )
    add_model_dirs(parser)
    parser.add_argument("--input", required=True, metavar="F", help="text of the target language")
    _add_output(parser)
    parser.add_argument(
        "--tag", type=text, default="<bt>", metavar="T",
        help="put before each source; '' for none (default: %(default)s, which "
        "vocabulary.symbols=[<bt>] makes a piece)",
    )  # fmt: skip
    parser.add_argument(
        "--sample", type=int, metavar="SEED",
        help="draw the sources at random, with this seed, instead of searching the best",
    )  # fmt: skip
    parser.add_argument(
        "--temperature", type=float, metavar="T",
        help="with --sample, divides the logits (default: 1)",
    )  # fmt: skip
    parser.add_argument(
        "--top-k", type=int, metavar="K",
        help="with --sample, draws from the K most probable tokens (default: all)",
    )  # fmt: skip
    add_search_options(parser)
    add_dtype(parser)
    parser.set_defaults(run=_run_back_translate)


def _add_output(parser):
    parser.add_argument(
        "--output", type=folder, required=True, metavar="DIR", help="the folder to write"
    )


@interrupted_by_signals()
def _run_distill(options):
    from tf_transformer.storage.trained_models import TrainedModels
    from tf_transformer.text.parallel_text import check_parallel, digest
    from tf_transformer.text.text_file import TextFile

    search = given_search(options)
    given = [(dirs, False) for dirs in options.teacher]
    given += [(dirs, True) for dirs in options.reverse_teacher]
    if not given:
        raise InputError("expected at least one --teacher or --reverse-teacher")
    source, target = TextFile.parse(options.source, 1), TextFile.parse(options.target, 2)
    teachers = [(TrainedModels(tuple(dirs)), is_reverse) for dirs, is_reverse in given]
    _check_output(options.output, [m for m, _ in teachers], [source.path, target.path])
    for models, _ in teachers:
        check_translator(models)
    check_parallel(source, target)
    corpus_digest = digest(source, target)
    import_tensorflow(on_cpu=options.dtype == "int8")
    from export.synthesis.distillation import Distillation, Teacher, distill

    distillation = Distillation(
        teachers=tuple(Teacher(models, is_reverse) for models, is_reverse in teachers),
        source=source,
        target=target,
        search=search,
        keep=options.keep,
        has_originals=not options.only_synthetic,
        dtype=options.dtype,
    )
    _report(options.output, distill(distillation, options.output, corpus_digest))


@interrupted_by_signals()
def _run_back_translate(options):
    from tf_transformer.text.parallel_text import digest
    from tf_transformer.text.text_file import TextFile

    search = given_search(options)
    _check_sampling(options)
    models, given = given_models(options), TextFile.parse(options.input, 1)
    _check_output(options.output, [models], [given.path])
    check_translator(models)
    text_digest = digest(given)
    import_tensorflow(on_cpu=options.dtype == "int8")
    from export.synthesis.back_translation import BackTranslation, Sampling, back_translate

    sampling = None
    if options.sample is not None:
        temperature = 1.0 if options.temperature is None else options.temperature
        sampling = Sampling(options.sample, temperature, options.top_k or 0)
    back_translation = BackTranslation(
        models, given, search, sampling, options.tag.strip(), options.dtype
    )
    _report(options.output, back_translate(back_translation, options.output, text_digest))


def _check_sampling(options):
    for name in ("temperature", "top_k"):
        if getattr(options, name) is not None and options.sample is None:
            raise InputError(f"--{name.replace('_', '-')} is valid only with --sample")
    if options.sample is not None and not 0 <= options.sample < _LARGEST_SEED:
        raise InputError(f"--sample {options.sample}: expected 0 to {_LARGEST_SEED - 1}, a seed")
    if options.temperature is not None and not 0 < options.temperature < 100:
        raise InputError(f"--temperature {options.temperature:g}: expected more than 0, below 100")
    if options.top_k is not None and not 1 <= options.top_k < 2**20:
        raise InputError(f"--top-k {options.top_k}: expected at least 1, below {2**20}")


def _check_output(output, models, inputs):
    check_folder(output)
    model_dirs = [path for each in models for path in each.directories]
    check_output_file("--output", output, model_dirs, inputs)


def _report(output: pathlib.Path, counts: dict[str, int]):
    from export.synthesis.synthetic_folder import SOURCE_NAME, TARGET_NAME

    left_out = ", ".join(f"{n:,} {name}" for name, n in counts.items() if n and name != "written")
    left_out = left_out and f"; left out: {left_out}"
    print(f"{output}: {counts['written']:,} pairs{left_out}")
    words = ["--source", str(output / SOURCE_NAME), "--target", str(output / TARGET_NAME)]
    print(f"To train on them: tf-transformer train {shlex.join(words)} ...")
