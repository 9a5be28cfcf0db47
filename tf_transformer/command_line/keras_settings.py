"""What a user has set Keras to for other programs, which must not change a command's results."""

import os
import sys

# Keras reads them when it is imported, and limits `fit` and `evaluate` to so many.
_LIMITS = ("KERAS_MAX_EPOCHS", "KERAS_MAX_STEPS_PER_EPOCH")


def ignore_limits() -> None:
    """Removes limits on training from the environment, with a notice, before Keras is imported."""
    for name in _LIMITS:
        if os.environ.pop(name, None) is not None:
            print(f"tf-transformer: {name} is ignored; give --steps instead", file=sys.stderr)


def use_float32() -> None:
    """Sets the default dtype of Keras, in place of that in the user's keras.json."""
    import keras

    keras.config.set_floatx("float32")
