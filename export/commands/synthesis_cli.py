"""The commands that make synthetic parallel text: distill and back-translate.

TensorFlow is imported only after all arguments and files have been checked.
"""

import argparse
import contextlib
import functools
import pathlib
import re
import shlex
from typing import TYPE_CHECKING

from tf_transformer.command_line.client_options import add_client_options, given_client_options
from tf_transformer.command_line.command_options import (
    BLEU_TOKENIZERS,
    add_dtype,
    add_languages,
    add_model_dirs,
    add_search_options,
    check_languages,
    check_translator,
    file_name,
    folder,
    given_models,
    given_search,
    text,
)
from tf_transformer.command_line.interruption import interrupted_by_signals
from tf_transformer.command_line.predictor_options import (
    add_exported_model,
    check_place,
    load_models,
    load_saved_model,
    model_facts,
    open_predictor,
    row_options,
    server_facts,
)
from tf_transformer.command_line.tag_options import given_tags, prepare_with
from tf_transformer.decoding.search_options import DEFAULT_SEARCH
from tf_transformer.errors import InputError
from tf_transformer.printable import shown
from tf_transformer.storage.files import check_folder
from tf_transformer.storage.output_files import check_output_file
from tf_transformer.storage.saved_model import is_saved_model, model_digest, version_folder
from tf_transformer.text.language_tags import find_tags, written_tags

if TYPE_CHECKING:
    from export.synthesis.teacher import Teacher

_ADDRESS = re.compile(r"[^/\s]+:[0-9]{1,5}")
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
        (
            "teacher",
            "a model that translates the source: a model directory, of which several are "
            "an ensemble, an exported model, or the HOST:PORT of a server; repeatable",
        ),
        ("reverse-teacher", "a model that translates the target into the source; repeatable"),
    ):
        parser.add_argument(
            f"--{name}", type=folder, nargs="+", action="append", default=[], metavar="PLACE",
            help=what,
        )  # fmt: skip
    add_client_options(parser)
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
    source = parser.add_mutually_exclusive_group(required=True)
    add_model_dirs(parser, source)
    add_exported_model(source)
    add_client_options(parser)
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
    parser.set_defaults(run=_run_back_translate, beam_size=None, length_penalty=None, dtype=None)


def _add_output(parser):
    parser.add_argument(
        "--output", type=folder, required=True, metavar="DIR", help="the folder to write"
    )


@interrupted_by_signals()
def _run_distill(options):
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
    given = [(places, False) for places in options.teacher]
    given += [(places, True) for places in options.reverse_teacher]
    if not given:
        raise InputError("expected at least one --teacher or --reverse-teacher")
    source, target = TextFile.parse(options.source, 1), TextFile.parse(options.target, 2)
    read = [place for places, _ in given for place in places]
    _check_output(options.output, read, [source.path, target.path])
    with contextlib.ExitStack() as stack:
        teachers = tuple(_teacher(options, *each, stack) for each in given)
        has_languages = options.target_language or options.source_language
        if has_languages and not any(teacher.tags for teacher in teachers):
            raise InputError(
                "--target-language and --source-language are for multilingual teachers, of which "
                "there is none that translates into a language that is given"
            )
        check_parallel(source, target)
        corpus_digest = digest(source, target)
        from export.synthesis.distillation import Distillation, distill

        distillation = Distillation(
            teachers=teachers,
            source=source,
            target=target,
            search=search,
            keep=options.keep,
            tokenizer=options.tokenize or "13a",
            has_originals=not options.only_synthetic,
            dtype=options.dtype,
        )
        _report(options.output, distill(distillation, options.output, corpus_digest))


def _teacher(options, places: list[pathlib.Path], is_reverse: bool, stack) -> "Teacher":
    """Returns a teacher: model directories, an exported model or a server."""
    from export.synthesis.teacher import Teacher

    own, other = options.source_language, options.target_language
    if is_reverse:
        own, other = other, own
    exported = _exported(options, places[0], stack) if len(places) == 1 else None
    if exported is None:
        return _local_teacher(options, places, own, other, is_reverse)
    tags = "" if other is None else written_tags(other)
    load, facts = exported
    return Teacher(load, facts, prepare_with(tags), tags, given_search(options), is_reverse)


def _exported(options, place: pathlib.Path, stack):
    """Returns what loads an exported model or the client of a server, and what identifies it.

    None is returned for any other place, which is to be a model directory.
    """
    if is_saved_model(place):
        facts = {"saved_model": model_digest(version_folder(place))}
        return functools.partial(load_saved_model, place), facts
    address = str(place)
    if place.exists() or not _ADDRESS.fullmatch(address):
        return None
    from tf_transformer.predictors.client import Client

    client = stack.enter_context(Client(address, **given_client_options(options)))
    return (lambda: client), server_facts(address, options)


def _local_teacher(options, folders, own, other, is_reverse) -> "Teacher":
    """Returns a teacher that is loaded for the search, so that its rows need no options."""
    from export.synthesis.teacher import Teacher
    from tf_transformer.storage.trained_models import TrainedModels

    models = TrainedModels(tuple(folders))
    vocabulary, _ = check_translator(models)
    num_tags, tags = models.config().num_tags, ""
    if vocabulary.languages and other is not None:
        tags = find_tags(other, own if num_tags > 1 else None, vocabulary.languages, num_tags)
    return Teacher(
        functools.partial(load_models, models, options.dtype, **given_search(options)),
        {"weights_digest_blake2b": models.digest()},
        prepare_with(tags, vocabulary.languages, num_tags),
        tags,
        is_reverse=is_reverse,
    )


@interrupted_by_signals()
def _run_back_translate(options):
    from tf_transformer.text.parallel_text import digest
    from tf_transformer.text.text_file import TextFile

    search = (DEFAULT_SEARCH if options.model_dir else {}) | given_search(options)
    _check_sampling(options)
    check_languages(options)
    if not options.tag.isprintable() or options.tag != options.tag.strip():
        raise InputError(
            f"--tag {shown(options.tag)}: expected printable characters without spaces around "
            "them, or ''"
        )
    check_place(options, ("ensemble_weights", "adapter", "dtype"))
    given = TextFile.parse(options.input, 1)
    read = options.model_dir or [place for place in [options.saved_model] if place]
    _check_output(options.output, read, [given.path])
    dtype, vocabulary, num_tags = options.dtype or "float32", None, 1
    if options.model_dir is not None:
        models = given_models(options)
        vocabulary, _ = check_translator(models)
        num_tags = models.config().num_tags
    languages = vocabulary.languages if vocabulary else []
    tags = given_tags(options, vocabulary, num_tags)
    if languages and not tags:
        raise InputError(
            "the model is multilingual; name the language of the sources to write by "
            "--target-language"
        )
    text_digest = digest(given)
    from export.synthesis.back_translation import BackTranslation, Sampling, back_translate
    from export.synthesis.teacher import Teacher

    sampling = None
    if options.sample is not None:
        temperature = 1.0 if options.temperature is None else options.temperature
        sampling = Sampling(options.sample, temperature, options.top_k or 0)

    def load():
        return load_models(given_models(options), dtype, **search)

    with open_predictor(options, load) as predictor:
        prepare = prepare_with(tags, languages, num_tags)
        teacher = Teacher(predictor, model_facts(options), prepare, tags, row_options(options))
        back_translation = BackTranslation(teacher, given, search, sampling, options.tag, dtype)
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
    check_output_file("--output", output, models, inputs)


def _report(output: pathlib.Path, counts: dict[str, int]):
    from export.synthesis.synthetic_folder import SOURCE_NAME, TARGET_NAME

    left_out = ", ".join(f"{n:,} {name}" for name, n in counts.items() if n and name != "written")
    left_out = left_out and f"; left out: {left_out}"
    print(f"{output}: {counts['written']:,} pairs{left_out}")
    words = ["--source", str(output / SOURCE_NAME), "--target", str(output / TARGET_NAME)]
    print(f"To train on them: tf-transformer train {shlex.join(words)} ...")
