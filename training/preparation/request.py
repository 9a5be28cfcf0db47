"""Starting and resuming a preparation: the lock of its folder and its recorded request."""

import contextlib
import pathlib
import shutil
from collections.abc import Iterator

from tf_transformer.errors import InputError
from tf_transformer.storage.files import locked, remove_leftovers
from tf_transformer.storage.json_files import read_json, write_json
from tf_transformer.storage.own_files import make_own_folder, replacing_own
from training.prepared.prepared_folder import (
    DESCRIPTION_NAME,
    MAX_BYTES,
    SPM_NAMES,
    WORK_NAME,
    read_description,
)

# What a request contains only if it is given, and what differs then.
_OPTIONAL = {
    "shuffle": "another order of the pairs (--shuffle)",
    "language_filter": "another filter of languages (--language-id)",
}


@contextlib.contextmanager
def locked_output(output: pathlib.Path) -> Iterator[pathlib.Path]:
    """Makes and locks the output folder; yields the folder of intermediate files in it."""
    work = output / WORK_NAME
    if output.exists() and not output.is_dir():
        raise InputError(f"{output}: expected a folder")
    is_ours = work.is_dir() or (output / DESCRIPTION_NAME).exists()
    if output.exists() and any(output.iterdir()) and not is_ours:
        raise InputError(f"{output}: holds other files; give a new or empty folder")
    output.mkdir(parents=True, exist_ok=True)
    with locked(output, "preparing it"):
        try:
            make_own_folder(work)
            remove_leftovers(output)
            remove_leftovers(work)
            yield work
        finally:
            if (output / DESCRIPTION_NAME).exists():
                shutil.rmtree(work, ignore_errors=True)
                remove_leftovers(output)  # of processes that ended only after their parent


def start_or_resume(output: pathlib.Path, work: pathlib.Path, request: dict) -> dict | None:
    """Records the request of a new preparation, or compares it with the recorded one.

    Returns:
        The content of `prepared.json` if the preparation is finished, else None.
    """
    path = output / DESCRIPTION_NAME
    recorded = path if path.exists() else work / "request.json"
    # Until the vocabulary is written, no file depends on the request and it may change.
    if recorded != path and not (output / SPM_NAMES[1]).exists():
        with replacing_own(recorded) as temporary:
            write_json(temporary, request)
    try:
        former = read_json(recorded, MAX_BYTES)
        before = {name: former[name] for name in request if name not in _OPTIONAL}
        before |= {name: former.get(name) for name in _OPTIONAL}
        difference = _difference(before, dict.fromkeys(_OPTIONAL) | request)
    except (OSError, ValueError, LookupError, TypeError) as error:
        raise InputError(
            f"{recorded}: damaged; remove {output} to start again ({error!r})"
        ) from error
    if difference:
        raise InputError(
            f"{output} was begun with {difference}; give the same files and settings, or another "
            "--output"
        )
    return read_description(output) if recorded == path else None


def _difference(before: dict, now: dict) -> str | None:
    """Describes the first difference of two requests; None if they are equal."""
    for name, value in now.items():
        label = name.replace("_", " ")
        if before[name] == value:
            continue
        if name in _OPTIONAL:
            return _OPTIONAL[name]
        if isinstance(value, int):
            return f"{label} {before[name]}, not {value}"
        if name == "vocabulary":
            settings = (key for key in value if before[name][key] != value[key])
            return ", ".join(f"{name}.{k} {before[name][k]}, not {value[k]}" for k in settings)
        return f"other {label}"
    return None
