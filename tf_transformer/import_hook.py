"""Calls around the first import of a module of another package."""

import contextlib
import sys
from collections.abc import Callable


def wrap_import(library: str, context: Callable[[], contextlib.AbstractContextManager]) -> None:
    """Runs the import of a module, which has not been imported, in a context.

    Args:
        library: name of the module.
        context: returns the context manager to import it in. It is used once, unless the import
            fails.
    """
    awaited = {hook.library for hook in sys.meta_path if isinstance(hook, ImportHook)}
    if library not in awaited:  # it is after a reload
        sys.meta_path.insert(0, ImportHook(library, context))


class ImportHook:
    """A finder that delegates to the others and runs one module's code in a context.

    Args:
        library: name of the module.
        context: see `wrap_import`.
    """

    def __init__(self, library: str, context: Callable[[], contextlib.AbstractContextManager]):
        self.library = library
        self._context = context

    def find_spec(self, name, path=None, target=None):
        if name != self.library:
            return None
        others = [finder for finder in sys.meta_path if finder is not self]
        found = (finder.find_spec(name, path, target) for finder in others)
        spec = next((spec for spec in found if spec is not None), None)
        if spec is not None and spec.loader is not None:
            self._extend(spec.loader)
        return spec

    def _extend(self, loader):
        execute = loader.exec_module

        def execute_in_context(module):
            with self._context():
                execute(module)
                if self in sys.meta_path:
                    sys.meta_path.remove(self)

        loader.exec_module = execute_in_context
