"""The command `train`.

TensorFlow is imported inside the command, so that `--help` is fast.
"""

import argparse
import contextlib
import logging
import os
import pathlib
import re
import shlex
import sys

from tf_transformer.command_line.command_options import add_model_dir
from tf_transformer.command_line.quiet import import_tensorflow
from tf_transformer.errors import InputError
from tf_transformer.presets import PRESETS
from tf_transformer.printable import shown
from tf_transformer.storage.files import check_folder
from tf_transformer.storage.own_files import replacing_own

_MAX_DEVICES = 1024
_NO_SOURCE = "; without it, a language model of the target is trained"


def add_commands(commands: argparse._SubParsersAction) -> None:
    """Adds the parser of `train`."""
    parser = commands.add_parser(
        "train",
        help="train a model on parallel text, or resume its training",
        description="Trains a model. Files hold one sentence per line, plain, .gz or .zst; "
        "F.tsv:2 is column 2 of a TSV file. On Ctrl-C, SIGTERM or a closed terminal, the running "
        "step is finished and a checkpoint saved; run the same command again to resume. A second "
        "Ctrl-C or SIGTERM ends the process at once, without saving: the same command then "
        "resumes from the newest checkpoint.",
    )
    parser.add_argument("--source", metavar="F", help=f"source sentences{_NO_SOURCE}")
    corpus = parser.add_mutually_exclusive_group(required=True)
    corpus.add_argument("--target", metavar="F", help="target sentences")
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
            f"--validation-{side}", required=side == "target", metavar="F",
            help=f"{side} sentences of the validation set, which is scored at each checkpoint",
        )  # fmt: skip
    add_model_dir(parser, "the model directory to write")
    parser.add_argument(
        "--init-from", type=pathlib.Path, metavar="DIR",
        help="a model to initialize vocabulary and weights from (fine-tuning)",
    )  # fmt: skip
    parser.add_argument(
        "--lora", type=int, metavar="RANK",
        help="with --init-from: train matrices of this rank that are added to the model's (LoRA), "
        "and write them to adapter.h5",
    )  # fmt: skip
    parser.add_argument(
        "--lora-alpha", type=float, metavar="A",
        help="factor of these matrices, which is divided by the rank (default: the rank)",
    )  # fmt: skip
    parser.add_argument(
        "--lora-targets", nargs="+", metavar="PATTERN",
        help="layers that get them, such as '*attention/*' or 'decoder/*/feed_forward/*' "
        "(default: all of attention and feed-forward networks)",
    )  # fmt: skip
    parser.add_argument(
        "--add-pieces", type=pathlib.Path, metavar="F",
        help="with --init-from: a file of terms, characters or language tags, one per line, that "
        "become pieces of the vocabulary",
    )  # fmt: skip
    parser.add_argument(
        "--vocabulary", type=pathlib.Path, metavar="PATH",
        help="use the vocabulary of a prepared folder or a model directory, or your own: a "
        "SentencePiece model, or a folder with source.spm and target.spm (default: train one)",
    )  # fmt: skip
    parser.add_argument("--preset", metavar="NAME", help=f"sizes: {', '.join(PRESETS)}")
    parser.add_argument("--steps", type=int, metavar="N", help="total number of optimizer updates")
    parser.add_argument("--vocab-size", type=int, metavar="N", help="size of the vocabulary")
    parser.add_argument("--config", type=pathlib.Path, metavar="F", help="YAML file of settings")
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
    parser.add_argument(
        "--profile", metavar="FIRST:LAST",
        help="capture a profile of these steps for TensorBoard, such as 100:110",
    )  # fmt: skip
    parser.set_defaults(run=_run)


def _run(options):
    from training.settings import parse_setting, read_settings

    shortcuts = {
        "preset": options.preset,
        "optimization.steps": options.steps,
        "optimization.seed": options.seed,
        "optimization.checkpoint_every": options.checkpoint_every,
        "vocabulary.size": options.vocab_size,
        "lora.rank": options.lora,
        "lora.alpha": options.lora_alpha,
        "lora.targets": options.lora_targets,
    }
    settings = read_settings(
        options.config,
        *map(parse_setting, options.set),
        {name: value for name, value in shortcuts.items() if value is not None},
    )
    folders = _prepared_folders(options)
    vocabulary = _given_vocabulary(options, settings, folders)
    config = _load_train_config(options, settings, folders)
    profile = options.profile and _parse_profile(options.profile, config.optimization.steps)
    texts = _text_files(options)
    _check_early(options, config, folders, vocabulary, texts)
    import_tensorflow()
    from training.checkpointing.run_files import LOGS_NAME, PICTURE_NAME
    from training.malloc import keep_freed_memory
    from training.plots.training_curves import plot_training
    from training.prepared.prepared_text import PreparedText
    from training.trainer import train

    keep_freed_memory()

    logging.basicConfig(format="%(message)s", stream=sys.stderr)
    logging.getLogger("training").setLevel(logging.INFO)
    result = train(
        config,
        **texts,
        prepared=folders and PreparedText(folders, config.data, options.data_service),
        model_dir=options.model_dir,
        strategy=options.strategy,
        num_devices=options.devices,
        deterministic=options.deterministic,
        profile=profile,
        init_from=options.init_from,
        vocabulary=options.vocabulary,
        add_pieces=options.add_pieces,
    )
    if not result.is_chief:
        return 0 if result.stopped_by is None else 128 + result.stopped_by
    picture = options.model_dir / PICTURE_NAME
    with replacing_own(picture) as path:
        plot_training(options.model_dir / LOGS_NAME).savefig(path, format="png")
    if result.stopped_by is not None:
        again = shlex.join(["tf-transformer", *sys.argv[1:]])
        done = f"Stopped and saved at step {result.step}" if result.step else "Stopped at step 0"
        with _closed_terminal_ignored():
            print(f"{done}. To resume, run again:\n  {again}")
        return 128 + result.stopped_by
    if result.early_stop is not None:
        print(f"Stopped early at step {result.step}: {result.early_stop}.")
        print(
            "To resume, raise validation.patience; to use the best checkpoints: average --best N."
        )
    print(f"Trained for {result.step} steps: {options.model_dir} (curves: {picture})")


def _text_files(options):
    """Returns the text files by their argument names in `train`; None for those not given."""
    from tf_transformer.text.text_file import TextFile

    names = {"source": 1, "target": 2, "validation_source": 1, "validation_target": 2}
    return {
        name: getattr(options, name) and TextFile.parse(getattr(options, name), default_column)
        for name, default_column in names.items()
    }


@contextlib.contextmanager
def _closed_terminal_ignored():
    """Ignores errors of printing to a closed terminal, so that the exit status is unaffected."""
    try:
        yield
    except OSError:
        devnull = os.open(os.devnull, os.O_WRONLY)
        for stream in (sys.stdout, sys.stderr):
            os.dup2(devnull, stream.fileno())  # Python flushes the streams when it exits


def _parse_profile(text: str, steps: int) -> tuple[int, int]:
    match = re.fullmatch(r"(\d+):(\d+)", text)
    if not match or not 1 <= int(match[1]) <= int(match[2]) <= steps:
        raise InputError(
            f"--profile {text}: expected FIRST:LAST, two of the steps 1 to {steps}, as in 100:110"
        )
    return int(match[1]), int(match[2])


def _check_early(options, config, folders, vocabulary, texts):
    """Runs all checks that need no TensorFlow, the fastest first."""
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
    check_noise(config, is_prepared=bool(folders))
    if vocabulary is not None and not options.init_from:
        config = with_vocabulary(config, vocabulary)
    check_initial_model(options.model_dir, options.init_from, config)
    check_resumable(options.model_dir, config, options.init_from)
    if folders:
        check_shards(folders)
    else:
        check_lengths(texts["source"], texts["target"])
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


def _load_train_config(options, settings, folders):
    """Makes the settings of the run; without a source, they are those of a language model.

    With --init-from, the initial model decides what kind of model is trained.
    """
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
