"""Registers this package's classes with Keras without importing Keras or KerasHub.

`keras.models.load_model` and `from_preset` find a class only after its module has been imported.
These modules import Keras and therefore TensorFlow, which takes too long for `--help` and the
client. So they are imported together with this package if Keras, or KerasHub, is imported already,
and otherwise right after it.
"""

import contextlib
import functools
import importlib
import sys
from collections.abc import Callable, Iterator
from types import ModuleType

from tf_transformer.import_hook import wrap_import

# These modules import all other modules that register classes.
_MODULES = (
    "models.transformer",
    "models.language_model",
    "losses.label_smoothing",
    "losses.metrics",
    "losses.schedule",
)
_OTHER_BACKENDS = ("jax", "torch")


def register() -> None:
    """Imports the modules that register classes with Keras.

    Raises:
        ImportError: as `import_public`.
    """
    for module in _MODULES:
        import_public(f"tf_transformer.{module}")


def import_public(module: str) -> ModuleType:
    """Imports a module, perhaps as the first that imports Keras.

    Raises:
        ImportError: Keras is set to a backend that is not installed.
    """
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name not in _OTHER_BACKENDS:
            raise
        raise ImportError(
            f"Keras is set to the backend {error.name!r}, which is not installed. Set the "
            "environment variable KERAS_BACKEND=tensorflow before Keras is imported"
        ) from error


def register_hub() -> None:
    """Imports the modules that register classes for KerasHub, if Keras' backend is TensorFlow.

    With another backend there are none, and KerasHub is still imported without an error.
    """
    import keras

    if keras.backend.backend() == "tensorflow":
        importlib.import_module("tf_transformer.hub.seq_2_seq_lm")


def register_with_keras() -> None:
    """Registers the classes now, or as soon as Keras or KerasHub is imported."""
    for library, function in (("keras", register), ("keras_hub", register_hub)):
        if sys.modules.get(library) is not None:  # None blocks an import
            function()
        else:
            wrap_import(library, functools.partial(_then, function))


@contextlib.contextmanager
def _then(function: Callable[[], None]) -> Iterator[None]:
    """Calls a function after an import that has not failed."""
    yield
    if not _is_importing():
        function()


def _is_importing() -> bool:
    """Returns whether a module of this package imports Keras; it must be complete before others."""
    specs = [
        getattr(module, "__spec__", None)
        for name, module in list(sys.modules.items())
        if name.startswith("tf_transformer.")
    ]
    return any(getattr(spec, "_initializing", False) for spec in specs)
