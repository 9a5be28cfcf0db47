"""Provenance of scores: text digests, date and versions."""

import datetime
import importlib.metadata
import platform

import tf_transformer
from tf_transformer.text.parallel_text import digest
from tf_transformer.text.text_file import TextFile

_PACKAGES = ("tensorflow", "tensorflow-text", "keras", "numpy", "sacrebleu", "sentencepiece")


def describe_text(file: TextFile) -> dict[str, str]:
    """Returns a file's name and the digest of its sentences."""
    return {"file": str(file), "digest_blake2b": digest(file)}


def describe_now() -> dict[str, object]:
    """Returns the date, and the versions of Python and of the packages that affect scores."""
    versions = {"tf_transformer": tf_transformer.__version__, "python": platform.python_version()}
    versions |= {name: importlib.metadata.version(name) for name in _PACKAGES}
    now = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    return {"date": now, "versions": versions}
