"""The corpus, the settings and the devices of a training, which `train` and `tune` share."""

import argparse
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from tf_transformer.command_line.command_options import file_name, file_path
from tf_transformer.errors import InputError
from tf_transformer.presets import PRESETS

_NO_SOURCE = "; without it, a language model of the target is trained"


def add_corpus(parser: argparse.ArgumentParser) -> "argparse._MutuallyExclusiveGroup":
    """Adds the options of the training corpus and the validation set.

    Args:
        parser: parser of the command.

    Returns:
        The group of alternatives for where the corpus is, one of which is required.
    """
    parser.add_argument(
        "--source", type=file_name, metavar="F", help=f"source sentences{_NO_SOURCE}"
    )
    corpus = parser.add_mutually_exclusive_group(required=True)
    corpus.add_argument("--target", type=file_name, metavar="F", help="target sentences")
    corpus.add_argument(
        "--prepared", nargs="+", metavar="DIR[=WEIGHT]",
        help="folders that `prepare` made, instead of --source and --target; pairs of a folder "
        "with weight 3 are seen three times as often as those of a folder with weight 1",
    )  # fmt: skip
    parser.add_argument(
        "--data-service", metavar="ADDRESS",
        help="address of a tf.data service that reads the prepared folders, such as "
        "grpc://localhost:5050",
    )  # fmt: skip
    for side in ("source", "target"):
        parser.add_argument(
            f"--validation-{side}", required=side == "target", type=file_name, metavar="F",
            help=f"{side} sentences of the validation set, which is scored at each checkpoint",
        )  # fmt: skip
    return corpus


def add_settings(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the vocabulary and of single settings, and `--deterministic`."""
    parser.add_argument(
        "--vocabulary", type=file_path, metavar="PATH",
        help="use the vocabulary of a prepared folder or a model directory, or your own: a "
        "SentencePiece model, or a folder with source.spm and target.spm (default: train one)",
    )  # fmt: skip
    parser.add_argument("--preset", metavar="NAME", help=f"sizes: {', '.join(PRESETS)}")
    parser.add_argument("--steps", type=int, metavar="N", help="total number of optimizer updates")
    parser.add_argument("--vocab-size", type=int, metavar="N", help="size of the vocabulary")
    parser.add_argument("--config", type=file_path, metavar="F", help="YAML file of settings")
    parser.add_argument(
        "--set", nargs="+", action="extend", default=[], metavar="NAME=VALUE",
        help="single settings, such as optimization.warmup_steps=4000 or model.dropout_rate=0.1",
    )  # fmt: skip
    parser.add_argument(
        "--seed", type=int, metavar="N", help="random seed of weights, dropout and data order"
    )
    parser.add_argument(
        "--checkpoint-every", type=int, metavar="N", help="updates between two checkpoints"
    )
    parser.add_argument(
        "--deterministic", action="store_true",
        help="make training deterministic: the same command gives the same weights; slower",
    )  # fmt: skip


def add_devices(parser: argparse.ArgumentParser) -> None:
    """Adds `--strategy` and `--devices`."""
    parser.add_argument(
        "--strategy", default="auto",
        choices=("auto", "one_device", "mirrored", "multi_worker"),
        help="auto: multi_worker if TF_CONFIG names several workers, else this machine's devices",
    )  # fmt: skip
    parser.add_argument(
        "--devices", type=int, metavar="N",
        help="number of GPUs (default: all); without GPUs, number of logical CPU devices "
        "(default: 1)",
    )  # fmt: skip


def read_inputs(
    options: argparse.Namespace, shortcuts: Mapping[str, Any] = MappingProxyType({})
) -> tuple[dict[str, Any], Any]:
    """Reads the settings and finds the corpus.

    Args:
        options: the parsed command line.
        shortcuts: values of the command's own options, by the names of settings; None means that
            an option is not given.

    Returns:
        The given settings, without defaults, and the corpus, see `TrainingRun`; None without one.

    Raises:
        InputError: an option, a setting, a text, a prepared folder or the vocabulary is not valid.
    """
    from training.settings import parse_setting, read_settings

    shortcuts = {
        **shortcuts,
        "preset": options.preset,
        "optimization.steps": options.steps,
        "optimization.seed": options.seed,
        "optimization.checkpoint_every": options.checkpoint_every,
        "vocabulary.size": options.vocab_size,
    }
    settings = read_settings(
        options.config,
        *map(parse_setting, options.set),
        {name: value for name, value in shortcuts.items() if value is not None},
    )
    corpus = _prepared_corpus(options)
    _check_vocabulary(options, settings, corpus)
    if corpus is None and options.target is not None:
        from training.data.text_pair import TextPair

        corpus = TextPair(options.source, options.target, options.alignments)
    return settings, corpus


def read_added_pieces(options: argparse.Namespace) -> tuple[str, ...]:
    """Reads the pieces that `--add-pieces` adds to the vocabulary; none without this option.

    Args:
        options: the parsed command line.

    Raises:
        InputError: the file is not valid.
    """
    if options.add_pieces is None:
        return ()
    from training.vocabulary_extension import read_pieces

    return tuple(read_pieces(options.add_pieces))


def training_run(options: argparse.Namespace, config: Any, corpus: Any, **more: Any) -> Any:
    """Returns the run that the command line describes, see `TrainingRun`.

    Args:
        options: the parsed command line.
        config: the settings of the run, see `load_config`.
        corpus: the training corpus, see `read_inputs`.
        more: other fields of the run.

    Raises:
        InputError: there is no validation set.
    """
    from training.data.text_pair import TextPair
    from training.run import Devices, Start, TrainingRun

    return TrainingRun(
        config=config,
        corpus=corpus,
        validation=TextPair(options.validation_source, options.validation_target),
        start=Start(options.init_from, options.vocabulary, options.add_pieces),
        devices=Devices(options.strategy, options.devices, options.deterministic),
        **more,
    )


def _prepared_corpus(options):
    if not options.prepared:
        if options.data_service:
            raise InputError("--data-service reads prepared folders; give them with --prepared")
        return None
    if options.source is not None:
        raise InputError("--prepared replaces --source; leave out --source")
    if options.alignments is not None:
        raise InputError(
            "--alignments are of the pairs of --source and --target; a prepared folder cannot have "
            "any: leave out --alignments, or give the text instead of --prepared"
        )
    from training.prepared.prepared_corpus import PreparedCorpus
    from training.prepared.prepared_folder import PreparedFolder

    folders = [PreparedFolder.parse(name) for name in options.prepared]
    return PreparedCorpus(folders, options.data_service)


def _check_vocabulary(options, settings, prepared):
    """Checks the given settings of the vocabulary against those of --prepared or --vocabulary.

    The run no longer knows which settings were given.
    """
    if not prepared and options.vocabulary is None:
        return
    from training.prepared.existing_vocabulary import (
        check_vocabulary,
        read_vocabulary,
        vocabulary_for,
    )

    if prepared:
        owner = prepared.folders[0].path
        vocabulary, _ = read_vocabulary(owner)
    else:
        owner = options.vocabulary
        vocabulary, _ = vocabulary_for(owner, has_source=options.source is not None)
    check_vocabulary(settings.get("vocabulary", {}), vocabulary, owner)


def load_config(
    options: argparse.Namespace,
    settings: dict[str, Any],
    corpus: Any,
    added_pieces: Sequence[str] = (),
) -> Any:
    """Makes the settings of the run; without a source, they are those of a language model.

    With --init-from, the initial model decides what kind of model is trained.

    Args:
        options: the parsed command line.
        settings: the given settings, see `read_inputs`.
        corpus: the training corpus, see `read_inputs`.
        added_pieces: see `read_added_pieces`.

    Raises:
        InputError: a setting is not valid.
    """
    from training.settings import make_config

    if options.init_from is not None:
        from training.checkpointing.run_metadata import was_initialized_from
        from training.fine_tuning import config_like

        # Once the run has started, the initial model may have changed or be gone.
        has_started = was_initialized_from(options.model_dir, options.init_from)
        model_dir = options.model_dir if has_started else options.init_from
        return config_like(model_dir, settings, added_pieces)

    if corpus.has_source:
        return make_config(settings)
    model = {"decoder_only": True} | settings.get("model", {})
    try:
        return make_config(settings | {"model": model})
    except ValueError as error:
        raise InputError(f"{error} (without --source, a language model is trained)") from error
