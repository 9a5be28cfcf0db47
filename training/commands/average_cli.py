"""The command `average`.

TensorFlow is imported inside the command, so that `--help` is fast.
"""

import argparse

from tf_transformer.command_line.command_options import add_model_dir, folder
from tf_transformer.command_line.interruption import interrupted_by_signals
from tf_transformer.command_line.quiet import import_tensorflow
from tf_transformer.errors import InputError
from tf_transformer.storage.files import locked
from tf_transformer.storage.own_files import check_own_file


def add_commands(commands: argparse._SubParsersAction) -> None:
    """Adds the parser of `average`."""
    parser = commands.add_parser(
        "average",
        help="average the weights of checkpoints, or of several models",
        description="Sets the model's weights to the mean of the weights of the last or the best "
        "N checkpoints, or of all if there are fewer, and leaves these unchanged; or writes a new "
        "model, the mean of several that were trained on from the same one.",
    )
    add_model_dir(parser, "the model; with --models, a new or empty folder to write")
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument("--last", type=int, metavar="N", help="the last N checkpoints")
    which.add_argument(
        "--best", type=int, metavar="N",
        help="the best N checkpoints that are kept, by BLEU or by validation.best_by",
    )  # fmt: skip
    which.add_argument(
        "--models", type=folder, nargs="+", metavar="DIR",
        help="models that were trained on from the same one by `train --init-from`, or from one "
        "another",
    )  # fmt: skip
    parser.add_argument(
        "--weights", type=float, nargs="+", metavar="W",
        help="with --models, the weight of each model (default: all are equal)",
    )  # fmt: skip
    parser.set_defaults(run=_run)


def _run(options):
    if options.models is not None:
        _average_models(options)
        return
    if options.weights is not None:
        raise InputError("--weights is valid only with --models")
    from tf_transformer.storage.model_dir import WEIGHTS_NAME, read_config
    from training.checkpointing.best_checkpoints import best_checkpoint_paths
    from training.checkpointing.checkpoint_files import last_checkpoint_paths, step_of

    read_config(options.model_dir)  # raises if it is not a model directory
    check_own_file(options.model_dir / WEIGHTS_NAME)
    with locked(options.model_dir, "training this model"):
        if options.best is not None:
            paths = sorted(best_checkpoint_paths(options.model_dir, options.best), key=step_of)
        else:
            paths = last_checkpoint_paths(options.model_dir, options.last)
        import_tensorflow(on_cpu=True)
        from training.checkpointing.written_weights import write_average

        steps = write_average(options.model_dir, paths)
    if len(steps) == 1:
        print(f"The weights are now those at step {steps[0]}.")
    else:
        print(f"The weights are now the mean of those at steps {', '.join(map(str, steps))}.")
    these, have = ("this one", "has") if len(steps) == 1 else (f"these {len(steps)}", "have")
    if options.last is not None and len(steps) < options.last:
        print(f"--last {options.last}: there are no more checkpoints than {these}.")
    if options.best is not None and len(steps) < options.best:
        print(
            f"--best {options.best}: no more checkpoints than {these} {have} a score; "
            "training keeps as many of the best as validation.keep_best says."
        )


@interrupted_by_signals()
def _average_models(options):
    from tf_transformer.storage.new_folder import check_new_folder
    from tf_transformer.storage.trained_models import TrainedModels
    from training.checkpointing.model_average import write_model_average

    if len(options.models) < 2:
        raise InputError("--models: expected at least two models")
    check_new_folder(options.model_dir)
    weights = None if options.weights is None else tuple(options.weights)
    models = TrainedModels(tuple(options.models), weights)
    write_model_average(models, options.model_dir)
    print(f"{options.model_dir}: the mean of {', '.join(map(str, options.models))}")
