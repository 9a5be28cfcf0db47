"""Checking the callbacks that the user passes to `train`."""

from collections.abc import Iterable

import keras

from tf_transformer.errors import InputError
from tf_transformer.printable import shown

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
