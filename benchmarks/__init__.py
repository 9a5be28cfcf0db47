"""Programs that measure; `python -m benchmarks.NAME --help` says how to call one.

Errors that its caller can cause end each of them in one line, as they end `tf-transformer`. This
module needs only Python's standard library, because workers run in other environments, too.
"""

import subprocess
import sys

_OURS = ("benchmarks", "export", "tests", "tf_transformer", "training")


def explain(error):
    """Returns what to tell a caller who can cause an error, in one line, or None for a bug.

    A package that is not installed is such an error, and so is a program that failed. If that has
    said why itself, the line is empty.
    """
    if isinstance(error, ModuleNotFoundError) and error.name:
        package = error.name.partition(".")[0]
        return None if package in _OURS else f"needs {package}, which is not installed"
    if isinstance(error, subprocess.CalledProcessError):
        said = error.stderr or ""
        said = said if isinstance(said, str) else said.decode(errors="replace")
        lines = said.splitlines()[-1:]
        if error.returncode in (1, 2) and not lines:
            return ""
        return ": ".join([f"status {error.returncode} of {' '.join(map(str, error.cmd))}", *lines])
    if isinstance(error, OSError) and error.strerror and error.filename:
        return f"{error.filename}: {error.strerror}"
    # If it is not imported yet, nothing has raised its `InputError`.
    errors = sys.modules.get("tf_transformer.errors")
    if isinstance(error, OSError) or (errors and isinstance(error, errors.InputError)):
        return " ".join(str(error).split())
    return None


def _print_error(kind, error, traceback):
    line = explain(error)
    if line is None:
        sys.__excepthook__(kind, error, traceback)
    elif line:
        print(f"error: {line}", file=sys.stderr)


if sys.argv[0] == "-m":  # as long as Python looks for the program's module
    sys.excepthook = _print_error
