"""The versions of packages, also of those that are installed for another Python."""

import functools
import json
import subprocess

_PROGRAM = """
import importlib.metadata, json, sys
found = {}
for name in sys.argv[1:]:
    try:
        found[name] = importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        found[name] = None
print(json.dumps(found))
"""


@functools.cache
def versions(python: str, names: tuple[str, ...]) -> dict[str, str | None]:
    """Returns the version of each package; None if it is not installed, or there is no such Python.

    Args:
        python: the program.
        names: names of the packages.
    """
    try:
        done = subprocess.run(
            [python, "-c", _PROGRAM, *names], capture_output=True, text=True, check=True
        )
    except (OSError, subprocess.CalledProcessError):
        return dict.fromkeys(names)
    return json.loads(done.stdout)
