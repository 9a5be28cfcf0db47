"""The packages of another commit, to compare this version with."""

import io
import pathlib
import subprocess
import tarfile

ROOT = pathlib.Path(__file__).parents[1]
PACKAGES = ("tf_transformer", "training", "export")


def extract(commit: str, directory: pathlib.Path) -> None:
    """Writes the packages of a commit to a folder."""
    words = ["git", "-C", str(ROOT), "archive", "--format=tar", commit, *PACKAGES]
    archive = subprocess.run(words, stdout=subprocess.PIPE)
    if archive.returncode:  # git has printed the reason
        raise SystemExit(2)
    with tarfile.open(fileobj=io.BytesIO(archive.stdout)) as files:
        files.extractall(directory, filter="data")
