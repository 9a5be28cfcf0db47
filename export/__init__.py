"""A model directory in, something deployable out."""

from typing import TYPE_CHECKING, Any

from tf_transformer.known_names import missing_attribute
from tf_transformer.registration import import_public

if TYPE_CHECKING:  # gives editors and type checkers the real names
    from export.markup.markup_translator import MarkupTranslator
    from export.saved_model.saved_model import export_task, export_translator
    from export.saved_model.signatures import ServedTranslator
    from tf_transformer.predictors.client.client import Client
else:  # hidden from type checkers, which would otherwise accept any name of this package

    def __getattr__(name: str) -> Any:
        """Imports a public name on first use, so that the client loads no TensorFlow."""
        if name not in _MODULES:
            raise missing_attribute(__name__, name, __all__)
        return getattr(import_public(_MODULES[name]), name)


_MODULES = {
    "Client": "tf_transformer.predictors.client.client",
    "MarkupTranslator": "export.markup.markup_translator",
    "ServedTranslator": "export.saved_model.signatures",
    "export_task": "export.saved_model.saved_model",
    "export_translator": "export.saved_model.saved_model",
}

__all__ = ["Client", "MarkupTranslator", "ServedTranslator", "export_task", "export_translator"]


def __dir__() -> list[str]:
    return sorted({*__all__, *(name for name in globals() if name.startswith("__"))})
