"""The command `train`.

TensorFlow is imported inside the command, so that `--help` is fast.
"""

import argparse
import contextlib
import logging
import os
import re
import shlex
import sys

from tf_transformer.command_line.command_options import add_model_dir, file_name, file_path, folder
from tf_transformer.command_line.quiet import import_tensorflow
from tf_transformer.storage.own_files import replacing_own
from training.commands.options.training_inputs import (
    add_corpus,
    add_devices,
    add_settings,
    load_config,
    read_added_pieces,
    read_inputs,
    training_run,
)


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
    add_corpus(parser)
    parser.add_argument(
        "--alignments", type=file_name, metavar="F",
        help="word alignments of the pairs, such as `0-0 1-2`, by eflomal or `align`, which a head "
        "of the cross-attention learns",
    )  # fmt: skip
    add_model_dir(parser, "the model directory to write")
    parser.add_argument(
        "--backup", metavar="URL",
        help="keep a copy of the model directory on object storage, such as gs://bucket/run or "
        "s3://bucket/run, and restore it first if it is newer",
    )  # fmt: skip
    parser.add_argument(
        "--init-from", type=folder, metavar="DIR",
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
        "--draft-heads", type=int, metavar="K",
        help="with --init-from: train K heads that draft tokens, with which greedy search of few "
        "sentences takes several in a step; the model itself stays as it is",
    )  # fmt: skip
    parser.add_argument(
        "--add-pieces", type=file_path, metavar="F",
        help="with --init-from: a file of terms, characters or language tags, one per line, that "
        "become pieces of the vocabulary",
    )  # fmt: skip
    add_settings(parser)
    add_devices(parser)
    parser.add_argument(
        "--profile", metavar="FIRST:LAST",
        help="capture a profile of these steps for TensorBoard, such as 100:110",
    )  # fmt: skip
    parser.set_defaults(run=_run)


def _run(options):
    lora = {"rank": options.lora, "alpha": options.lora_alpha, "targets": options.lora_targets}
    shortcuts = {f"lora.{name}": value for name, value in lora.items()}
    shortcuts["model.draft_heads"] = options.draft_heads
    settings, corpus = read_inputs(options, shortcuts)
    added_pieces = read_added_pieces(options)
    config = load_config(options, settings, corpus, added_pieces)
    run = training_run(
        options,
        config,
        corpus,
        model_dir=options.model_dir,
        backup=options.backup,
        added_pieces=added_pieces,
        profile=options.profile and _parse_profile(options.profile, config.optimization.steps),
    ).check()
    import_tensorflow()
    from training.checkpointing.run_files import LOGS_NAME, PICTURE_NAME
    from training.malloc import keep_freed_memory
    from training.plots.training_curves import plot_training
    from training.trainer import train_run

    keep_freed_memory()

    logging.basicConfig(format="%(message)s", stream=sys.stderr)
    logging.getLogger("training").setLevel(logging.INFO)
    result = train_run(run)
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
    from training.run import profile_error

    match = re.fullmatch(r"(\d+):(\d+)", text)
    if not match:
        raise profile_error(text, steps)
    return int(match[1]), int(match[2])
