"""The commands that make synthetic parallel text: distill and back-translate.

TensorFlow is imported only after all arguments and files have been checked.
"""

import argparse
import pathlib
import shlex
from typing import TYPE_CHECKING

from tf_transformer.command_line.command_options import (
    BLEU_TOKENIZERS,
    DEFAULT_SEARCH,
    add_dtype,
    add_languages,
    add_model_dirs,
    add_search_options,
    check_languages,
    check_translator,
    file_name,
    find_source_tags,
    folder,
    given_models,
    given_search,
    text,
)
from tf_transformer.command_line.interruption import interrupted_by_signals
from tf_transformer.command_line.quiet import import_tensorflow
from tf_transformer.errors import InputError
from tf_transformer.printable import shown
from tf_transformer.storage.files import check_folder
from tf_transformer.storage.output_files import check_output_file
from tf_transformer.text.language_tags import find_tags

if TYPE_CHECKING:
    from tf_transformer.storage.trained_models import TrainedModels

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
    parser.add_argument(
        "--source", required=True, type=file_name, metavar="F", help="source of the training text"
    )
    parser.add_argument(
        "--target", required=True, type=file_name, metavar="F", help="target of the training text"
    )
    _add_output(parser)
    parser.add_argument(
        "--keep", choices=_KEPT, default="best",
        help="the translation with the best score or, of as many as the beam is wide, the one with "
        "the highest sentence BLEU or chrF against the reference (default: %(default)s)",
    )  # fmt: skip
    parser.add_argument(
        "--tokenize", choices=BLEU_TOKENIZERS,
        help="with --keep bleu, sacreBLEU's tokenizer; zh for Chinese (default: 13a)",
    )  # fmt: skip
    parser.add_argument(
        "--only-synthetic", action="store_true", help="leave out the original pairs"
    )
    parser.add_argument(
        "--target-language", type=text, metavar="L",
        help="language of the target, for multilingual teachers; a tag such as <2de> is added to "
        "what they read, but not to the corpus",
    )  # fmt: skip
    parser.add_argument(
        "--source-language", type=text, metavar="L",
        help="language of the source, for reverse teachers, and for those that need its tag, too",
    )  # fmt: skip
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
    parser.add_argument(
        "--input", required=True, type=file_name, metavar="F", help="text of the target language"
    )
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
    add_languages(parser)
    add_search_options(parser)
    add_dtype(parser)
    # None, so that they are not given with --sample.
    parser.set_defaults(run=_run_back_translate, beam_size=None, length_penalty=None)


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
    if options.keep != "best" and search["beam_size"] < 2:
        raise InputError(
            f"--keep {options.keep} chooses among the hypotheses of the beam; expected a "
            "--beam-size of at least 2. Received: 1"
        )
    if options.tokenize and options.keep != "bleu":
        raise InputError("--tokenize is valid only with --keep bleu")
    given = [(dirs, False) for dirs in options.teacher]
    given += [(dirs, True) for dirs in options.reverse_teacher]
    if not given:
        raise InputError("expected at least one --teacher or --reverse-teacher")
    source, target = TextFile.parse(options.source, 1), TextFile.parse(options.target, 2)
    models = [(TrainedModels(tuple(dirs)), is_reverse) for dirs, is_reverse in given]
    _check_output(options.output, [m for m, _ in models], [source.path, target.path])
    teachers = [(*each, _teacher_tags(options, *each)) for each in models]
    if (options.target_language or options.source_language) and not any(t[2] for t in teachers):
        raise InputError(
            "--target-language and --source-language are for multilingual teachers, of which there "
            "is none that translates into a language that is given"
        )
    check_parallel(source, target)
    corpus_digest = digest(source, target)
    import_tensorflow(on_cpu=options.dtype == "int8")
    from export.synthesis.distillation import Distillation, Teacher, distill

    distillation = Distillation(
        teachers=tuple(Teacher(*teacher) for teacher in teachers),
        source=source,
        target=target,
        search=search,
        keep=options.keep,
        tokenizer=options.tokenize or "13a",
        has_originals=not options.only_synthetic,
        dtype=options.dtype,
    )
    _report(options.output, distill(distillation, options.output, corpus_digest))


def _teacher_tags(options, models: "TrainedModels", is_reverse: bool) -> str:
    """Returns the tags that a teacher needs before what it reads, "" for none."""
    vocabulary, _ = check_translator(models)
    own, other = options.source_language, options.target_language
    if is_reverse:
        own, other = other, own
    if not vocabulary.languages or other is None:
        return ""
    num_tags = 1 + models.config().num_target_tags
    return find_tags(other, own if num_tags > 1 else None, vocabulary.languages, num_tags)


@interrupted_by_signals()
def _run_back_translate(options):
    from tf_transformer.text.parallel_text import digest
    from tf_transformer.text.text_file import TextFile

    search = DEFAULT_SEARCH | given_search(options)
    _check_sampling(options)
    check_languages(options)
    if not options.tag.isprintable() or options.tag != options.tag.strip():
        raise InputError(
            f"--tag {shown(options.tag)}: expected printable characters without spaces around "
            "them, or ''"
        )
    models, given = given_models(options), TextFile.parse(options.input, 1)
    _check_output(options.output, [models], [given.path])
    vocabulary, _ = check_translator(models)
    languages = find_source_tags(options, vocabulary, 1 + models.config().num_target_tags)
    if vocabulary.languages and languages is None:
        raise InputError(
            "the model is multilingual; name the language of the sources to write by "
            "--target-language"
        )
    text_digest = digest(given)
    import_tensorflow(on_cpu=options.dtype == "int8")
    from export.synthesis.back_translation import BackTranslation, Sampling, back_translate

    sampling = None
    if options.sample is not None:
        temperature = 1.0 if options.temperature is None else options.temperature
        sampling = Sampling(options.sample, temperature, options.top_k or 0)
    back_translation = BackTranslation(
        models, given, search, sampling, options.tag, options.dtype, languages or ""
    )
    _report(options.output, back_translate(back_translation, options.output, text_digest))


def _check_sampling(options):
    for name in ("temperature", "top_k"):
        if getattr(options, name) is not None and options.sample is None:
            raise InputError(f"--{name.replace('_', '-')} is valid only with --sample")
    for name in ("beam_size", "length_penalty"):
        if getattr(options, name) is not None and options.sample is not None:
            raise InputError(f"--{name.replace('_', '-')} is not valid with --sample")
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
