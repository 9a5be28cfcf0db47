"""The command `tune`.

TensorFlow is imported inside the command, so that `--help` is fast.
"""

import argparse
import logging
import os
import shlex
import sys
from collections.abc import Callable
from typing import Any, NamedTuple

from tf_transformer.command_line.command_options import (
    add_model_dirs,
    check_translator,
    file_path,
    folder,
    parse_models,
)
from tf_transformer.command_line.interruption import interrupted_by_signals
from tf_transformer.command_line.quiet import import_tensorflow
from tf_transformer.errors import InputError
from tf_transformer.storage.files import check_folder, locked
from training.commands.options.training_inputs import (
    add_corpus,
    add_devices,
    add_settings,
    load_config,
    read_inputs,
    training_run,
)
from training.tuning.names import PRUNERS, SAMPLERS

_MAX_TRIALS = 100_000
# Options that are of no use for a model that is trained already.
_TRAINING_OPTIONS = (
    *("source", "data_service", "vocabulary", "preset", "steps", "vocab_size", "seed"),
    *("checkpoint_every", "deterministic", "devices", "trials", "sampler", "pruner"),
)


def add_commands(commands: argparse._SubParsersAction) -> None:
    """Adds the parser of `tune`."""
    parser = commands.add_parser(
        "tune",
        help="try settings and search options, and compare them on the validation set",
        description="Trains a model for each of a number of combinations of settings, then tries "
        "search options with the best one; with --model-dir, tries search options only. Everything "
        "is chosen on the validation set. The same command resumes an interrupted tuning.",
    )
    corpus = add_corpus(parser)
    add_model_dirs(parser, corpus)
    parser.add_argument(
        "--space", type=file_path, required=True, metavar="F",
        help="YAML file: what to try, in the sections settings and search",
    )  # fmt: skip
    parser.add_argument(
        "--output", type=folder, required=True, metavar="DIR",
        help="folder of the results and of the models that are trained",
    )  # fmt: skip
    parser.add_argument(
        "--trials", type=int, metavar="N",
        help="number of models to train (default with --sampler grid: all of the grid)",
    )  # fmt: skip
    parser.add_argument(
        "--sampler", choices=SAMPLERS,
        help="how settings are chosen: tpe, by the results so far; at random; a grid of all "
        "(default: tpe)",
    )  # fmt: skip
    parser.add_argument(
        "--pruner", choices=PRUNERS,
        help="which trainings are stopped early by their validation scores: median, those worse "
        "than the median at the same step; hyperband; none (default: median)",
    )  # fmt: skip
    add_settings(parser)
    add_devices(parser)
    parser.set_defaults(run=_run, init_from=None, add_pieces=None, alignments=None)


@interrupted_by_signals()
def _run(options):
    from training.tuning.request import start_or_resume
    from training.tuning.space import read_space
    from training.tuning.study import StudyInterrupted, import_optuna

    space = read_space(options.space)
    _check_options(options, space)
    check_folder(options.output)
    run = _prepare_search(options, space) if options.model_dir else _prepare(options, space)
    import_optuna()
    options.output.mkdir(parents=True, exist_ok=True)
    with locked(options.output, "tuning in this folder"):
        start_or_resume(options.output, run.request | {"space": space.as_plain()})
        import_tensorflow()
        logging.basicConfig(format="%(message)s", stream=sys.stderr)
        logging.getLogger("training").setLevel(logging.INFO)
        try:
            run.tune()
        except StudyInterrupted as interruption:
            again = shlex.join(["tf-transformer", *sys.argv[1:]])
            print(f"Stopped and saved. To resume, run again:\n  {again}")
            return 128 + interruption.signum
    return 0


class _Tuning(NamedTuple):
    """A tuning after all checks that need no TensorFlow.

    Attributes:
        request: what the results depend on, as JSON values.
        tune: runs all studies.
    """

    request: dict[str, Any]
    tune: Callable[[], object]


def _check_options(options, space):
    """Checks the options without reading a text or a model."""
    from training.tuning.space import grid

    if options.model_dir:
        for name in _TRAINING_OPTIONS:
            if getattr(options, name):
                raise InputError(
                    f"--{name.replace('_', '-')} is for training; leave it out with --model-dir"
                )
        if space.settings or not space.search:
            raise InputError(
                f"{options.space}: with --model-dir, expected the section search alone"
            )
        if options.validation_source is None:
            raise InputError("--model-dir: expected a --validation-source to translate")
        return
    for name in ("ensemble_weights", "adapter"):
        if getattr(options, name):
            raise InputError(f"--{name.replace('_', '-')} is valid only with --model-dir")
    if not space.settings:
        raise InputError(
            f"{options.space}: expected the section settings; to try search options alone, give a "
            "--model-dir"
        )
    if options.sampler == "grid":
        list(grid(space.settings))  # raises if there is none
    elif options.trials is None:
        raise InputError("--trials: expected the number of models to train")
    if options.trials is not None and not 1 <= options.trials <= _MAX_TRIALS:
        raise InputError(f"--trials {options.trials}: expected 1 to {_MAX_TRIALS:,}")


def _check_tunable(options, space, has_vocabulary):
    """Checks that the settings to try are those of a training, and none of a given vocabulary."""
    for name in space.settings:
        section, _, field = name.partition(".")
        if section == "lora":
            raise InputError(
                f"{options.space}: {name} is of the adaptation of a trained model; `tune` trains "
                "models from the start"
            )
        if section == "vocabulary" and has_vocabulary and not field.endswith("_vectors"):
            raise InputError(
                f"{options.space}: {name} cannot change, since the vocabulary is that of "
                f"{'--prepared' if options.prepared else '--vocabulary'}; leave out one of the two"
            )


def _prepare_search(options, space) -> _Tuning:
    """Prepares the trials of search options with a given model."""
    from tf_transformer.text.parallel_text import digest
    from tf_transformer.text.text_file import TextFile
    from training.early_checks import check_lengths
    from training.settings import make_config

    settings, _ = read_inputs(options)
    if settings.keys() - {"validation"}:
        raise InputError("with --model-dir, expected no settings but those of validation")
    validation = make_config(settings).validation
    models = parse_models(options)
    check_translator(models)
    source = TextFile.parse(options.validation_source, 1)
    reference = TextFile.parse(options.validation_target, 2)
    check_lengths(source, reference)

    def tune():
        from training.tuning.tuning import SEARCH_NAME, tune_search

        arguments = (models, source, reference, validation)
        return tune_search(options.output, SEARCH_NAME, space.search, *arguments)

    request = {
        "weights": models.digest(),
        "validation set": digest(source, reference),
        "settings": settings,
    }
    return _Tuning(request, tune)


def _prepare(options, space) -> _Tuning:
    """Prepares the trials of settings."""
    from tf_transformer.text.parallel_text import digest
    from training.distributed.cluster import read_cluster
    from training.prepared.prepared_corpus import PreparedCorpus
    from training.prepared.prepared_folder import digests_of, read_models
    from training.settings import flatten, read_settings

    settings, corpus = read_inputs(options)
    is_prepared = isinstance(corpus, PreparedCorpus)
    _check_tunable(options, space, is_prepared or options.vocabulary is not None)
    config = load_config(options, settings, corpus)
    if config.is_language_model and space.search:
        raise InputError(f"{options.space}: a language model has no search options")
    if config.validation.keep_best < 1:
        raise InputError(
            "'validation.keep_best: 0': the best checkpoint of each trial is needed; expected at "
            "least 1"
        )
    if read_cluster(os.environ.get("TF_CONFIG", "")).addresses:
        raise InputError("TF_CONFIG: expected one worker; several cannot tune together")
    # A folder that does not exist: those of the trials are checked by their trainings.
    no_folder = options.output / "trials" / "none"
    run = training_run(options, config, corpus, model_dir=no_folder).check()

    def make_config(params):
        return load_config(options, read_settings(None, flatten(settings), params), corpus)

    validation = run.validation
    request = {
        "settings": settings,
        "sampler": options.sampler or "tpe",
        "seed": config.optimization.seed,
        "validation set": digest(validation.source, validation.target),
        "corpus": corpus.digest if is_prepared else digest(corpus.source, corpus.target),
        "vocabulary": options.vocabulary and digests_of(read_models(options.vocabulary)),
    }
    return _Tuning(request, lambda: _tune(options, space, run, make_config))


def _tune(options, space, run, make_config):
    from tf_transformer.storage.trained_models import TrainedModels
    from training.malloc import keep_freed_memory
    from training.tuning.tuning import SEARCH_NAME, tune_search, tune_settings

    keep_freed_memory()
    best = tune_settings(
        options.output,
        space.settings,
        run,
        make_config,
        sampler=options.sampler or "tpe",
        pruner=options.pruner or "median",
        num_trials=options.trials,
    )[0]
    if best.state != "complete":
        raise InputError(f"{options.output}: no trial has completed, see the table")
    if space.search:
        tune_search(
            options.output,
            f"{SEARCH_NAME}-{best.number:04}",
            space.search,
            TrainedModels((options.output / best.facts["model_dir"],)),
            run.validation.source,
            run.validation.target,
            run.config.validation,
        )
