"""The corpus, the settings and the devices of a training, which `train` and `tune` share."""

import argparse
import os
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from tf_transformer.command_line.command_options import file_name, file_path
from tf_transformer.errors import InputError
from tf_transformer.presets import PRESETS
from tf_transformer.printable import shown
from tf_transformer.storage.files import check_folder

_MAX_DEVICES = 1024
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
) -> tuple[dict[str, Any], Any, Any]:
    """Reads the settings and finds the prepared folders and the vocabulary.

    Args:
        options: the parsed command line.
        shortcuts: values of the command's own options, by the names of settings; None means that
            an option is not given.

    Returns:
        The given settings, without defaults; the prepared folders, or None; and the settings of the
        given vocabulary, or None.

    Raises:
        InputError: an option, a setting, a prepared folder or the vocabulary is not valid.
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
    folders = _prepared_folders(options)
    vocabulary = _given_vocabulary(options, settings, folders)
    return settings, folders, vocabulary


def text_files(options: argparse.Namespace) -> dict[str, Any]:
    """Returns the text files by their argument names in `train`; None for those not given."""
    from tf_transformer.text.text_file import TextFile

    names = {"source": 1, "target": 2, "validation_source": 1, "validation_target": 2}
    names["alignments"] = 1
    return {
        name: getattr(options, name) and TextFile.parse(getattr(options, name), default_column)
        for name, default_column in names.items()
    }


def check_early(
    options: argparse.Namespace, config: Any, folders: Any, vocabulary: Any, texts: dict[str, Any]
) -> None:
    """Runs all checks that need no TensorFlow, the fastest first.

    Args:
        options: the parsed command line.
        config: the settings of the run, see `load_config`.
        folders: the prepared folders, see `read_inputs`.
        vocabulary: the settings of the given vocabulary, see `read_inputs`.
        texts: the result of `text_files`.

    Raises:
        InputError: an option, a file or a folder is not valid.
    """
    from tf_transformer.storage.model_dir import CONFIG_NAME
    from tf_transformer.text.text_file import TextFile
    from training.checkpointing.run_files import check_run_files
    from training.checkpointing.run_metadata import check_resumable
    from training.distributed.cluster import choose_strategy, read_cluster
    from training.early_checks import (
        check_initial_model,
        check_language_tags,
        check_lengths,
        check_noise,
        check_shards,
        check_some_alignments,
        check_sources,
    )
    from training.prepared.existing_vocabulary import with_vocabulary

    if options.devices is not None and not 1 <= options.devices <= _MAX_DEVICES:
        raise InputError(
            f"--devices: expected 1 to {_MAX_DEVICES}. Received: {shown(options.devices)}"
        )
    cluster = read_cluster(os.environ.get("TF_CONFIG", ""))
    choose_strategy(options.strategy, options.devices, cluster)
    if not cluster.addresses:  # of several workers, only the chief writes
        check_folder(options.model_dir)
        check_run_files(options.model_dir)
    # They are read once, before the first step, unless the embeddings are another model's.
    if not options.init_from and not (options.model_dir / CONFIG_NAME).exists():
        for name in ("source_vectors", "target_vectors"):
            if vectors := getattr(config.vocabulary, name):
                TextFile.parse(vectors)  # raises if there is no such file
    has_source = _has_source(folders) if folders else texts["source"] is not None
    check_sources(config, has_source, texts["validation_source"] is not None)
    check_noise(config, bool(folders), has_alignments=options.alignments is not None)
    if vocabulary is not None and not options.init_from:
        config = with_vocabulary(config, vocabulary)
    check_initial_model(options.model_dir, options.init_from, config)
    check_resumable(options.model_dir, config, options.init_from)
    if folders:
        check_shards(folders)
    else:
        check_lengths(texts["source"], texts["target"])
        check_some_alignments(texts["alignments"], texts["source"], texts["target"])
    check_lengths(texts["validation_source"], texts["validation_target"])
    check_language_tags(
        config.vocabulary.languages, config.num_tags, texts["source"], texts["validation_source"]
    )


def _prepared_folders(options):
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
    from training.prepared.prepared_folder import PreparedFolder, read_description

    folders = [PreparedFolder.parse(name) for name in options.prepared]
    read_description(folders[0].path)  # raises if the folder is not prepared
    return folders


def _has_source(folders):
    from training.prepared.prepared_folder import read_description

    return read_description(folders[0].path)["tokenizers"][0] is not None


def _given_vocabulary(options, settings, folders):
    """Returns the settings of the vocabulary of --prepared or --vocabulary; None without both."""
    if options.vocabulary is not None:
        for name in ("prepared", "init_from"):
            if getattr(options, name):
                raise InputError(
                    f"--{name.replace('_', '-')} has its own vocabulary; leave out --vocabulary"
                )
    elif not folders:
        return None
    from training.prepared.existing_vocabulary import (
        check_vocabulary,
        read_vocabulary,
        vocabulary_for,
    )

    if folders:
        owner = folders[0].path
        vocabulary, _ = read_vocabulary(owner)
    else:
        owner = options.vocabulary
        vocabulary, _ = vocabulary_for(owner, has_source=options.source is not None)
    check_vocabulary(settings.get("vocabulary", {}), vocabulary, owner)
    return vocabulary


def load_config(options: argparse.Namespace, settings: dict[str, Any], folders: Any) -> Any:
    """Makes the settings of the run; without a source, they are those of a language model.

    With --init-from, the initial model decides what kind of model is trained.

    Args:
        options: the parsed command line.
        settings: the given settings, see `read_inputs`.
        folders: the prepared folders, see `read_inputs`.

    Raises:
        InputError: a setting is not valid.
    """
    from training.early_checks import with_alignment_head

    return with_alignment_head(
        _load_config(options, settings, folders),
        has_alignments=options.alignments is not None,
        has_initial_model=options.init_from is not None,
    )


def _load_config(options, settings, folders):
    from training.settings import make_config

    if options.init_from is not None:
        from training.checkpointing.run_metadata import was_initialized_from
        from training.fine_tuning import config_like

        # Once the run has started, the initial model may have changed or be gone.
        has_started = was_initialized_from(options.model_dir, options.init_from)
        model_dir = options.model_dir if has_started else options.init_from
        if not options.add_pieces:
            return config_like(model_dir, settings)
        from training.vocabulary_extension import check_extension, extend_vocabulary, read_pieces

        pieces = read_pieces(options.add_pieces)
        config = config_like(model_dir, settings, pieces)
        check_extension(config, options.init_from, bool(options.prepared))
        if not has_started:
            extend_vocabulary(model_dir, pieces)  # raises if it cannot be extended
        return config
    if options.add_pieces:
        raise InputError("--add-pieces extends the vocabulary of a model; give it as --init-from")

    if _has_source(folders) if folders else options.source is not None:
        return make_config(settings)
    model = {"decoder_only": True} | settings.get("model", {})
    try:
        return make_config(settings | {"model": model})
    except ValueError as error:
        raise InputError(f"{error} (without --source, a language model is trained)") from error
