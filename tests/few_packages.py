"""Programs that can import only some of the installed packages."""

import pathlib
import subprocess
import sys
from collections.abc import Sequence

ROOT = pathlib.Path(__file__).parents[1]
_FINDER = """
import sys
from importlib.machinery import PathFinder

class Finder(PathFinder):
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        spec = super().find_spec(name, path, target)
        is_installed = spec and "site-packages" in str(spec.origin or path)
        return None if is_installed and name.partition(".")[0] not in PACKAGES else spec

PACKAGES = sys.argv.pop().split()
sys.meta_path[sys.meta_path.index(PathFinder)] = Finder
"""


def run_with_packages(
    packages: Sequence[str], program: str, *arguments: str, **options
) -> subprocess.CompletedProcess:
    """Runs a program of Python.

    Args:
        packages: names of the modules that it may import, besides Python's and this project's.
        program: its text.
        *arguments: its arguments.
        **options: those of `subprocess.run`.
    """
    command = [sys.executable, "-c", _FINDER + program, *arguments, " ".join(packages)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, timeout=300, **options)
