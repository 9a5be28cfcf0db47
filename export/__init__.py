"""A model directory in, something deployable out."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # for editors and type checkers
    from export.client.client import Client
    from export.saved_model.saved_model import export_translator
    from export.saved_model.signatures import ServedTranslator
else:  # not for them: every name would be one of this package

    def __getattr__(name: str) -> Any:
        """Imports TensorFlow only once something needs it; the client does not."""
        if name not in _MODULES:
            raise AttributeError(f"module 'export' has no attribute {name!r}")
        return getattr(importlib.import_module(f"export.{_MODULES[name]}"), name)


_MODULES = {
    "Client": "client.client",
    "ServedTranslator": "saved_model.signatures",
    "export_translator": "saved_model.saved_model",
}

__all__ = ["Client", "ServedTranslator", "export_translator"]


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
