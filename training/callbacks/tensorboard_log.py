"""Writing TensorBoard's files, as the two runs `logs/training` and `logs/validation`."""

import pathlib
import time
from collections.abc import Iterable, Mapping

import keras
import numpy as np
import tensorflow as tf
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from tensorboard.compat.proto import event_pb2
from tensorboard.plugins.hparams import summary_v2 as hyper_parameters

from tf_transformer.storage.own_files import check_own_folder


class TensorBoardLog:
    """Writes scalars, texts, images, histograms, the graph and settings for TensorBoard.

    Args:
        log_dir: directory of the runs; None writes nothing.
        step: the step that training starts or resumes from. TensorBoard is told to discard later
            steps that an interrupted call has written, so that no step is shown twice.
    """

    def __init__(self, log_dir: pathlib.Path | None, step: int = 0):
        self.log_dir = log_dir
        if log_dir:
            check_own_folder(log_dir)
            for name in ("training", "validation"):
                _discard_steps(log_dir / name, step + 1)
        self._writers = {
            name: tf.summary.create_file_writer(str(log_dir / name))
            if log_dir
            else tf.summary.create_noop_writer()
            for name in ("training", "validation")
        }

    def scalars(self, run: str, values: Mapping[str, float], step: int) -> None:
        """Writes scalars by name to a run, "training" or "validation"."""
        with self._writers[run].as_default(step=step):
            for name, value in values.items():
                tf.summary.scalar(name, value)
        self._writers[run].flush()

    def translations(self, rows: Iterable[tuple[str, str, str]], step: int) -> None:
        """Writes a table with rows of source, translation and reference."""
        lines = ["| source | translation | reference |", "|---|---|---|"]
        lines += [f"| {' | '.join(map(_in_table, row))} |" for row in rows]
        with self._writers["validation"].as_default(step=step):
            tf.summary.text("translations", "\n".join(lines))
        self._writers["validation"].flush()

    def picture(self, name: str, figure: Figure, step: int) -> None:
        """Writes a figure as an image."""
        canvas = FigureCanvasAgg(figure)
        canvas.draw()
        pixels = np.asarray(canvas.buffer_rgba())[np.newaxis, ..., :3]
        with self._writers["validation"].as_default(step=step):
            tf.summary.image(name, pixels)
        self._writers["validation"].flush()

    def histograms(self, model: keras.Model, step: int) -> None:
        """Writes a histogram of every trainable weight."""
        with self._writers["training"].as_default(step=step):
            for weight in model.trainable_variables:
                tf.summary.histogram(weight.path.partition("/")[2], weight.numpy())
        self._writers["training"].flush()

    def graph(self, model: keras.Model) -> None:
        """Writes the graph of the model's call with `training=False`."""
        ids = tf.TensorSpec((None, None), tf.int32)
        inputs = {"target": ids} if model.config.decoder_only else {"source": ids, "target": ids}
        traced = tf.function(lambda inputs: model(inputs, training=False), autograph=False)
        graph = traced.get_concrete_function(inputs).graph
        with self._writers["training"].as_default(step=0):
            tf.summary.graph(graph)
        self._writers["training"].flush()

    def settings(self, trial: str, settings: Mapping[str, object], metrics: Iterable[str]) -> None:
        """Writes the settings to the run "validation", for the HParams page.

        Args:
            trial: name of the run on that page.
            settings: values by their dotted names.
            metrics: names of the scalars that the page shows.
        """
        values = {
            name: value if isinstance(value, bool | int | float | str) else str(value)
            for name, value in settings.items()
        }
        columns = [hyper_parameters.Metric(name) for name in metrics]
        with self._writers["validation"].as_default(step=0):
            hyper_parameters.hparams_config([*map(hyper_parameters.HParam, values)], columns)
            hyper_parameters.hparams(values, trial_id=trial)
        self._writers["validation"].flush()


def _discard_steps(directory, step):
    """Tells TensorBoard to discard this step and later ones of former calls.

    This is done in a separate file, whose name sorts before that of the writer made in the same
    second, because TensorBoard reads files in the order of their names.
    """
    now = time.time()
    start = event_pb2.SessionLog(status=event_pb2.SessionLog.START)
    directory.mkdir(parents=True, exist_ok=True)
    with tf.io.TFRecordWriter(
        str(directory / f"events.out.tfevents.{int(now):010}.!start")
    ) as file:
        for event in (
            event_pb2.Event(wall_time=now, file_version="brain.Event:2"),
            event_pb2.Event(wall_time=now, step=step, session_log=start),
        ):
            file.write(event.SerializeToString())


_AS_ENTITIES = str.maketrans({character: f"&#{ord(character)};" for character in "&\\`*_[]<>#|"})


def _in_table(text: str) -> str:
    """Escapes text so that Markdown shows it literally in a table cell."""
    return text.translate(_AS_ENTITIES) or "(nothing)"
