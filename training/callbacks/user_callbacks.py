"""The callbacks that the user passes to `train`: what they may do, and a base class."""

from collections.abc import Iterable, Sequence
from typing import Any

import keras

from tf_transformer.errors import InputError
from tf_transformer.printable import shown
from tf_transformer.private_interfaces import direction_of

# Keras' callbacks that change the weights or the learning rate, and what to use instead.
_REFUSED = {
    keras.callbacks.BackupAndRestore: "`train` itself resumes from its newest checkpoint",
    keras.callbacks.LearningRateScheduler: (
        "the learning rate follows `optimization.learning_rate_factor` and "
        "`optimization.warmup_steps`, see `NoamSchedule`"
    ),
    keras.callbacks.ReduceLROnPlateau: (
        "the learning rate follows `optimization.learning_rate_factor` and "
        "`optimization.warmup_steps`, see `NoamSchedule`; `validation.patience` stops early"
    ),
    keras.callbacks.SwapEMAWeights: "set `optimization.average_decay`",
}


class ScoreCallback(keras.callbacks.Callback):
    """A callback that decides by the validation scores of all checkpoints whether to stop early.

    The scores include BLEU and chrF, which the callbacks of Keras do not get. Of several workers,
    only the chief calls it.
    """

    def on_scores(self, scores: Sequence[dict[str, Any]]) -> str | None:
        """Called after each validation, and when a run resumes.

        Args:
            scores: the scores so far, in the order of their "step", see `ValidationScores.add`.

        Returns:
            Why training should stop early, or None.
        """


def check_callbacks(
    callbacks: Iterable[keras.callbacks.Callback],
) -> list[keras.callbacks.Callback]:
    """Returns the callbacks as a list.

    Raises:
        InputError: this is not a list of callbacks, or one is known to change weights or learning
            rate.
    """
    if isinstance(callbacks, keras.callbacks.Callback | str) or not isinstance(callbacks, Iterable):
        raise InputError(
            "`callbacks` must be a list of `keras.callbacks.Callback` objects. "
            f"Received: {type(callbacks).__name__}"
        )
    callbacks = list(callbacks)
    for callback in callbacks:
        if not isinstance(callback, keras.callbacks.Callback):
            raise InputError(
                "`callbacks` must be objects of `keras.callbacks.Callback`. "
                f"Received: {shown(callback)}"
            )
        for refused, instead in _REFUSED.items():
            if isinstance(callback, refused):
                raise InputError(
                    f"`callbacks` must change neither weights nor learning rate: {instead}. "
                    f"Received: {refused.__name__}"
                )
        if getattr(callback, "restore_best_weights", False):
            raise InputError(
                "`callbacks` must not change weights: the best checkpoints are kept, see "
                "`validation.keep_best` and `tf-transformer average --best`. Received: "
                f"{type(callback).__name__} with restore_best_weights=True"
            )
    return callbacks


def set_modes(
    callbacks: Iterable[keras.callbacks.Callback], metrics: Iterable[keras.metrics.Metric]
) -> None:
    """Decides for callbacks with `mode="auto"` whether what they monitor should rise or fall.

    Keras looks only at metrics that it updates itself, which the training step's are not.

    Args:
        callbacks: the user's callbacks.
        metrics: the metrics of the model.
    """
    directions = {metric.name: direction_of(metric) for metric in metrics}
    modes = {"up": "max", "down": "min"}
    for callback in callbacks:
        if getattr(callback, "mode", None) == "auto":
            name = str(getattr(callback, "monitor", "")).removeprefix("val_")
            callback.mode = modes.get(directions.get(name) or "", "auto")
