"""Which signatures are exported, by their names; needs no TensorFlow."""

from collections.abc import Collection

from tf_transformer.errors import InputError
from tf_transformer.known_names import nearest
from tf_transformer.tasks.table import TASKS

SIGNATURES = tuple(
    name
    for task in TASKS.values()
    if not (task.is_optional or task.needs)
    for name in task.signatures
)
"""Those of every model that are exported without a choice."""

OPTIONAL = tuple(name for task in TASKS.values() if task.is_optional for name in task.signatures)
"""Those that are exported only if they are named."""

DOCUMENTS = tuple(name for name in OPTIONAL if name.startswith("document"))

# What the signatures of some tasks need.
_NEEDED_FILES = {
    "adapted": "--adapters NAME=F, files of `train --lora`",
    "confidence": "--confidence F, a file of `train-confidence`",
    "language": "--language-id F, a file of `train-language-id`",
}
# Stands for all that are exported without a choice.
ALL = "all"


def expand_signatures(names: Collection[str], added: Collection[str] = ()) -> list[str]:
    """Returns names of signatures, each once, with those that `all` stands for.

    Args:
        names: the names.
        added: the signatures that adapters or other files add to those of every model.

    Raises:
        InputError: one does not exist; the message lists all that do.
    """
    default = (*SIGNATURES, *added)
    known = (ALL, *default, *OPTIONAL)
    for name in names:
        if name in _NEEDED_FILES and name not in known:
            raise InputError(f"The signature {name!r} needs {_NEEDED_FILES[name]}.")
        if name not in known:
            raise InputError(
                f"Unknown signature. Expected one of {', '.join(known)}. Received: {name!r}"
                + nearest(name, known)
            )
    expanded = [name for given in names for name in (default if given == ALL else [given])]
    return list(dict.fromkeys(expanded))
