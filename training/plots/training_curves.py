"""Plotting the curves of a training run."""

import pathlib

from matplotlib.figure import Figure
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.util.tensor_util import make_ndarray

from tf_transformer.errors import InputError
from tf_transformer.storage.regular_files import regular_size


def check_logs(log_dir: pathlib.Path) -> None:
    """Checks that there are TensorBoard files of a training run.

    Args:
        log_dir: the folder `logs` of a model directory.

    Raises:
        InputError: there are none.
    """
    if not any(log_dir.glob("training/events*")):
        raise InputError(f"{log_dir}: no TensorBoard files there; training writes them")


def plot_training(log_dir: pathlib.Path) -> Figure:
    """Draws loss, perplexity, accuracy and learning rate by step from TensorBoard's files.

    Args:
        log_dir: the folder `logs` of a model directory.

    Raises:
        InputError: there are no TensorBoard files, or one is not a regular file.
    """
    check_logs(log_dir)
    figure = Figure(figsize=(10, 6), layout="constrained")
    panels = (
        ("loss", "label-smoothed loss (nats a token)", "linear"),
        ("perplexity", "perplexity", "log"),
        ("accuracy", "token accuracy", "linear"),
        ("optimizer/learning_rate", "learning rate", "linear"),
    )
    runs = {name: read_scalars(log_dir / name) for name in ("training", "validation")}
    for axes, (tag, title, scale) in zip(figure.subplots(2, 2).flat, panels, strict=True):
        for name, scalars in runs.items():
            if points := sorted(scalars.get(tag, {}).items()):
                marker = "o" if len(points) == 1 else None  # a line of one point is invisible
                axes.plot(*zip(*points, strict=True), label=name, marker=marker)
        axes.set(title=title, xlabel="step", yscale=scale)
        axes.grid(alpha=0.3)
        if axes.lines:
            axes.legend()
    return figure


def read_scalars(directory: pathlib.Path) -> dict[str, dict[int, float]]:
    """Returns the values of every scalar by step; of a repeated step, the latest value.

    Args:
        directory: folder of one TensorBoard run; need not exist.

    Returns:
        Values by step, by the scalar's tag.

    Raises:
        InputError: one of TensorBoard's files is not a regular file.
    """
    if not directory.is_dir():
        return {}
    for path in directory.glob("*tfevents*"):
        regular_size(path)
    accumulator = EventAccumulator(str(directory), size_guidance={"tensors": 0})
    accumulator.Reload()
    scalars: dict[str, dict[int, float]] = {}
    for tag in accumulator.Tags()["tensors"]:
        if accumulator.SummaryMetadata(tag).plugin_data.plugin_name != "scalars":
            continue
        events = accumulator.Tensors(tag)
        scalars[tag] = {event.step: make_ndarray(event.tensor_proto).item() for event in events}
    return scalars
