"""The command `picture`."""

import argparse
import re

from tf_transformer.command_line.command_options import add_model_dir, add_search_options, text
from tf_transformer.command_line.quiet import import_tensorflow
from tf_transformer.errors import InputError
from tf_transformer.printable import shown
from training.commands.options.figures import (
    add_figure_output,
    check_figure_output,
    load_translator,
    save_figure,
)

_LAYOUTS = ("interleaved", "concatenated", "marian")
_SMOOTHED_OVER = ("all", "others", "others_but_padding")


def add_commands(commands: argparse._SubParsersAction) -> None:
    """Adds the parser of `picture`."""
    parser = commands.add_parser(
        "picture",
        help="draw a formula, a training run or a beam search",
        description="Draws one of the pictures of the guide.",
    )
    pictures = parser.add_subparsers(metavar="PICTURE", required=True)

    def add(name, draw, summary):
        picture = pictures.add_parser(name, help=summary, description=summary)
        add_figure_output(picture, f"{name}.png", "the file to write: .png, .svg or .pdf")
        picture.set_defaults(run=_run, draw=draw)
        return picture

    picture = add("masks", _draw_masks, "padding masks and causal masks")
    picture.add_argument(
        "--lengths", nargs="+", type=int, default=[8, 5], metavar="N",
        help="numbers of tokens of the sentences",
    )  # fmt: skip
    picture = add("positions", _draw_positions, "the positional encoding")
    picture.add_argument("--length", type=int, default=100, metavar="N", help="number of positions")
    picture.add_argument(
        "--d-model", type=int, default=128, metavar="N", help="width of the encoding"
    )
    picture.add_argument("--layout", default="interleaved", choices=_LAYOUTS)
    picture = add("position-products", _draw_products, "PE(pos + k) as a linear map of PE(pos)")
    picture.add_argument("--shift", type=int, default=10, metavar="K", help="k")
    picture = add("learning-rate", _draw_learning_rate, "the learning rate by step")
    picture.add_argument(
        "--settings", nargs="+", default=["512:4000", "512:8000", "256:4000"],
        metavar="D_MODEL:WARMUP", help="one curve each (default: %(default)s)",
    )  # fmt: skip
    picture.add_argument("--steps", type=int, default=20_000, metavar="N")
    picture.add_argument("--factor", type=float, default=1.0, metavar="X")
    picture = add("smoothed-labels", _draw_smoothed_labels, "the smoothed label distribution")
    picture.add_argument("--label-smoothing", type=float, default=0.4, metavar="E")
    picture.add_argument("--smoothed-over", default="others_but_padding", choices=_SMOOTHED_OVER)
    picture = add("overconfidence", _draw_overconfidence, "the penalty for over-confidence")
    picture.add_argument("--label-smoothing", type=float, default=0.1, metavar="E")
    picture = add("training", _draw_training, "curves of training and validation")
    add_model_dir(picture, "the model")
    picture = add("search", _draw_search, "the beam search of a sentence as a tree")
    add_model_dir(picture, "the model")
    picture.add_argument("--text", type=text, required=True, metavar="T", help="the sentence")
    add_search_options(picture)


def _run(options):
    check_figure_output(options)
    save_figure(options.draw(options), options.output)
    print(options.output)


def _pictures():
    """Imports the module of figures, which needs TensorFlow."""
    import_tensorflow()
    from training.plots import pictures

    return pictures


def _draw_masks(options):
    if not all(1 <= length <= 1000 for length in options.lengths):
        raise InputError(f"--lengths: expected numbers from 1 to 1000, got {options.lengths}")
    return _pictures().draw_masks(options.lengths)


def _draw_positions(options):
    if not 1 <= options.length <= 10_000:
        raise InputError(f"--length must be between 1 and 10,000. Received: {options.length}")
    if not 2 <= options.d_model <= 10_000 or options.d_model % 2:
        raise InputError(
            f"--d-model must be even, and between 2 and 10,000. Received: {options.d_model}"
        )
    return _pictures().draw_positions(options.length, options.d_model, options.layout)


def _draw_products(options):
    if not 0 <= options.shift <= 1_000_000:
        raise InputError(f"--shift must be between 0 and 1,000,000. Received: {options.shift}")
    return _pictures().draw_position_products(shift=options.shift)


def _draw_learning_rate(options):
    settings = []
    for setting in options.settings:
        match = re.fullmatch(r"([0-9]{1,9}):([0-9]{1,9})", setting)
        if not match or 0 in (pair := (int(match[1]), int(match[2]))):
            raise InputError(
                f"--settings: expected pairs D_MODEL:WARMUP of positive integers. "
                f"Received: {shown(setting)}"
            )
        settings.append(pair)
    if not 1 <= options.steps <= 10_000_000:
        raise InputError(f"--steps must be between 1 and 10,000,000. Received: {options.steps}")
    return _pictures().draw_learning_rate(settings, options.steps, options.factor)


def _draw_smoothed_labels(options):
    _check_label_smoothing(options.label_smoothing)
    return _pictures().draw_smoothed_labels(
        label_smoothing=options.label_smoothing, smoothed_over=options.smoothed_over
    )


def _draw_overconfidence(options):
    _check_label_smoothing(options.label_smoothing)
    return _pictures().draw_overconfidence(options.label_smoothing)


def _check_label_smoothing(value):
    if not 0 <= value < 1:
        raise InputError(f"--label-smoothing must be at least 0 and below 1. Received: {value}")


def _draw_training(options):
    from training.checkpointing.run_files import LOGS_NAME
    from training.plots.training_curves import check_logs, plot_training

    log_dir = options.model_dir / LOGS_NAME
    check_logs(log_dir)
    import_tensorflow()  # TensorBoard imports it when it reads the files
    return plot_training(log_dir)


def _draw_search(options):
    translator = load_translator(options, [options.text])
    from training.plots.recorded_search import record_search
    from training.plots.search_tree import draw_search

    return draw_search(record_search(translator, options.text))
