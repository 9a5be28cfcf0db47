"""The command `distill`.

TensorFlow is imported only after all arguments and files have been checked.
"""

import argparse
import contextlib
import functools
import pathlib
import re
from typing import TYPE_CHECKING

from export.commands.options.synthetic_corpus import (
    add_corpus_output,
    check_corpus_output,
    report_corpus,
)
from tf_transformer.command_line.client_options import add_client_options, parse_client_options
from tf_transformer.command_line.command_options import (
    BLEU_TOKENIZERS,
    add_dtype,
    add_search_options,
    check_translator,
    file_name,
    folder,
    parse_search,
    text,
)
from tf_transformer.command_line.interruption import interrupted_by_signals
from tf_transformer.command_line.predictor_options import (
    load_models,
    load_saved_model,
    server_facts,
)
from tf_transformer.command_line.tag_options import prepare_with
from tf_transformer.errors import InputError
from tf_transformer.storage.saved_model import (
    exported_languages,
    is_saved_model,
    model_digest,
    version_folder,
)
from tf_transformer.text.language_tags import find_tags, tags_of_known

if TYPE_CHECKING:
    from export.synthesis.teacher import Teacher

_ADDRESS = re.compile(r"[^/\s]+:[0-9]{1,5}")
_KEPT = ("best", "bleu", "chrf")


def add_commands(commands: argparse._SubParsersAction) -> None:
    """Adds the parser of `distill`."""
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
    add_corpus_output(parser)
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
    parser.set_defaults(run=_run, dtype=None)


@interrupted_by_signals()
def _run(options):
    from tf_transformer.text.parallel_text import check_parallel, digest
    from tf_transformer.text.text_file import TextFile

    search = parse_search(options)
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
    check_corpus_output(options.output, read, [source.path, target.path])
    with contextlib.ExitStack() as stack:
        teachers = tuple(_teacher(options, *each, stack) for each in given)
        _check_places(options, teachers)
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
            dtype=options.dtype or "float32",
        )
        report_corpus(options.output, distill(distillation, options.output, corpus_digest))


def _check_places(options, teachers):
    """Checks that there is a teacher that each option is for."""
    if options.dtype and not any("weights_digest_blake2b" in each.model for each in teachers):
        raise InputError("--dtype is valid only with a teacher that is a model directory")
    if any("server" in each.model for each in teachers):
        return
    for name in parse_client_options(options):
        raise InputError(
            f"--{name.replace('_', '-')} is valid only with a teacher that is a server's HOST:PORT"
        )


def _teacher(options, places: list[pathlib.Path], is_reverse: bool, stack) -> "Teacher":
    """Returns a teacher: model directories, an exported model or a server."""
    from export.synthesis.teacher import Teacher

    own, other = options.source_language, options.target_language
    if is_reverse:
        own, other = other, own
    exported = _exported(options, places[0], stack) if len(places) == 1 else None
    if exported is None:
        return _local_teacher(options, places, own, other, is_reverse)
    known = exported_languages(places[0]) if is_saved_model(places[0]) else None
    languages = [x for x in (other, own if known and known.num_tags > 1 else None) if x]
    if known and not known.languages:
        languages = []
    tags = tags_of_known(languages, known)
    load, facts = exported
    prepare = prepare_with(tags, *(known or ()))
    return Teacher(load, facts, prepare, tags, parse_search(options), is_reverse)


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

    client = stack.enter_context(Client(address, **parse_client_options(options)))
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
        functools.partial(load_models, models, options.dtype or "float32", **parse_search(options)),
        {"weights_digest_blake2b": models.digest()},
        prepare_with(tags, vocabulary.languages, num_tags),
        tags,
        is_reverse=is_reverse,
    )
