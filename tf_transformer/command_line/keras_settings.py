"""User settings of Keras, which must not change the results of commands."""

import os
import sys

# Keras reads these when it is imported and limits the epochs and steps of `fit` and `evaluate`.
_LIMITS = ("KERAS_MAX_EPOCHS", "KERAS_MAX_STEPS_PER_EPOCH")


def ignore_limits() -> None:
    """Removes Keras' limits on training from the environment, with a notice.

    Call it before Keras is imported.
    """
    for name in _LIMITS:
        if os.environ.pop(name, None) is not None:
            print(f"tf-transformer: {name} is ignored; use --steps instead", file=sys.stderr)


def use_float32() -> None:
    """Sets the default dtype of Keras to float32, whatever the user's keras.json says."""
    import keras

    keras.config.set_floatx("float32")
