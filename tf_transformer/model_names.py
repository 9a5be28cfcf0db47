"""Names of models that are no paths, such as `hf:OWNER/NAME` of the Hugging Face Hub.

What loads model directories knows no formats; `tf_transformer/__init__.py` registers what does.
"""

import pathlib
from collections.abc import Callable
from typing import Any

_RESOLVERS: dict[str, Callable[[str], pathlib.Path]] = {}


def register_prefix(prefix: str, resolve: Callable[[str], pathlib.Path]) -> None:
    """Registers what makes model directories of names.

    Args:
        prefix: what the names begin with.
        resolve: function from a name to its model directory.
    """
    _RESOLVERS[prefix] = resolve


def resolve_name(value: Any) -> Any:
    """Returns the model directory of a name; anything else as it is.

    Args:
        value: a name, or an argument that should be a path.

    Raises:
        InputError: the name is wrong, or its model cannot be imported.
        OSError: a file cannot be written.
    """
    if isinstance(value, str):
        for prefix, resolve in _RESOLVERS.items():
            if value.startswith(prefix):
                return resolve(value)
    return value
