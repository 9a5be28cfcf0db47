"""The command `average`.

TensorFlow is imported inside the command, so that `--help` is fast.
"""

import argparse

from tf_transformer.command_line.command_options import add_model_dir
from tf_transformer.command_line.quiet import import_tensorflow
from tf_transformer.storage.files import locked
from tf_transformer.storage.own_files import check_own_file


def add_commands(commands: argparse._SubParsersAction) -> None:
    """Adds the parser of `average`."""
    parser = commands.add_parser(
        "average",
        help="average the weights of the last or best checkpoints",
        description="Sets the model's weights to the mean of the weights of the last or the best "
        "N checkpoints. The checkpoints are unchanged.",
    )
    add_model_dir(parser, "the model")
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument("--last", type=int, metavar="N", help="the last N checkpoints")
    which.add_argument(
        "--best", type=int, metavar="N",
        help="the best N checkpoints that are kept, by BLEU or by validation.best_by",
    )  # fmt: skip
    parser.set_defaults(run=_run)


def _run(options):
    from tf_transformer.storage.model_dir import (
        WEIGHTS_NAME,
        make_model,
        read_config,
    )
    from training.checkpointing.best_checkpoints import best_checkpoint_paths
    from training.checkpointing.checkpoint_files import last_checkpoint_paths, step_of
    from training.recorded_config import read_training_config
    from training.trained_weights import all_shapes

    config = read_config(options.model_dir)
    recorded = read_training_config(options.model_dir)
    check_own_file(options.model_dir / WEIGHTS_NAME)
    with locked(options.model_dir, "training this model"):
        if options.best is not None:
            paths = sorted(best_checkpoint_paths(options.model_dir, options.best), key=step_of)
        else:
            paths = last_checkpoint_paths(options.model_dir, options.last)
        import_tensorflow(on_cpu=True)
        from training.callbacks.callbacks import write_weights_and_adapter
        from training.checkpointing.checkpoints import average_checkpoints, check_averageable
        from training.trained_weights import choose_trained

        # Before memory is allocated for the model.
        check_averageable(paths, all_shapes(recorded, config))
        model = make_model(config)
        if recorded:
            choose_trained(model, recorded)
        steps = average_checkpoints(paths, model)
        write_weights_and_adapter(options.model_dir, model)
    print(f"The weights are now the mean of those at steps {', '.join(map(str, steps))}.")
