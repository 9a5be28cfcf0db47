"""Which signatures are exported, by their names; needs no TensorFlow."""

from collections.abc import Collection

from tf_transformer.errors import InputError
from tf_transformer.known_names import nearest
from tf_transformer.tasks.table import TASK_OF, TASKS
from tf_transformer.tasks.task import A_TRANSLATOR

SIGNATURES = tuple(
    name
    for task in TASKS.values()
    if task.needs == "translator" and not task.is_optional
    for name in task.signatures
)
"""Those of every translation model that are exported without a choice."""

OPTIONAL = tuple(name for task in TASKS.values() for name in task.optional_signatures)
"""Those that are exported only if they are named."""

DOCUMENTS = tuple(name for name, task in TASK_OF.items() if task.reads_documents)
"""Those for texts of several sentences."""

OF_FILES = {task.file_option: task.signatures[0] for task in TASKS.values() if task.file_option}
"""The signature that each option of `export` with a file adds."""

# Stands for all that are exported without a choice.
ALL = "all"


def expand_signatures(
    names: Collection[str], added: Collection[str] = (), *, translates: bool = True
) -> list[str]:
    """Returns names of signatures, each once, with those that `all` stands for.

    Args:
        names: the names.
        added: the signatures that adapters or other files add to those of every model; all of a
            language model.
        translates: whether it is a translation model.

    Raises:
        InputError: one does not exist; the message lists all that do.
    """
    default = (*(SIGNATURES if translates else ()), *added)
    known = (ALL, *default, *(OPTIONAL if translates else ()))
    for name in names:
        if name in TASK_OF and name not in known:
            needed = TASK_OF[name].needed_option or A_TRANSLATOR
            raise InputError(f"The signature {name!r} needs {needed}.")
        if name not in known:
            raise InputError(
                f"Unknown signature. Expected one of {', '.join(known)}. Received: {name!r}"
                + nearest(name, known)
            )
    expanded = [name for given in names for name in (default if given == ALL else [given])]
    return list(dict.fromkeys(expanded))
