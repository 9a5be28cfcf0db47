"""Registers this package's classes with Keras without importing Keras.

`keras.models.load_model` finds a class only after its module has been imported. These modules
import Keras and therefore TensorFlow, which takes too long for `--help` and the client. So they are
imported together with this package if Keras is imported already, and otherwise right after Keras.
"""

import importlib
import sys

# These modules import all other modules that register classes.
_MODULES = (
    "models.transformer",
    "models.language_model",
    "losses.label_smoothing",
    "losses.metrics",
    "losses.schedule",
)


def register() -> None:
    """Imports the modules that register classes with Keras."""
    for module in _MODULES:
        importlib.import_module(f"tf_transformer.{module}")


def register_with_keras() -> None:
    """Registers the classes now, or as soon as Keras is imported."""
    if "keras" in sys.modules:
        register()
    elif not any(isinstance(finder, _AfterKeras) for finder in sys.meta_path):  # after a reload
        sys.meta_path.insert(0, _AfterKeras())


class _AfterKeras:
    """A finder that delegates to the others and registers the classes after Keras is imported."""

    def find_spec(self, name, path=None, target=None):
        if name != "keras":
            return None
        others = [finder for finder in sys.meta_path if finder is not self]
        found = (finder.find_spec(name, path, target) for finder in others)
        spec = next((spec for spec in found if spec is not None), None)
        if spec is not None and spec.loader is not None:
            self._extend(spec.loader)
        return spec

    def _extend(self, loader):
        execute = loader.exec_module

        def execute_and_register(module):
            execute(module)
            if self in sys.meta_path:
                sys.meta_path.remove(self)
            if not _is_importing():
                register()

        loader.exec_module = execute_and_register


def _is_importing() -> bool:
    """Returns whether a module of this package imports Keras; it must be complete before others."""
    specs = [
        getattr(module, "__spec__", None)
        for name, module in list(sys.modules.items())
        if name.startswith("tf_transformer.")
    ]
    return any(getattr(spec, "_initializing", False) for spec in specs)
