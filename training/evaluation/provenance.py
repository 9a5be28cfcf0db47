"""What a score was computed from and with."""

import datetime
import importlib.metadata
import platform

import tf_transformer
from tf_transformer.text.text_file import TextFile
from training.data.corpus import digest

_PACKAGES = ("tensorflow", "tensorflow-text", "keras", "numpy", "sacrebleu", "sentencepiece")


def describe_text(file: TextFile) -> dict[str, str]:
    """A file's name and the digest of its sentences."""
    return {"file": str(file), "digest_blake2b": digest(file)}


def describe_now() -> dict[str, object]:
    """The time, and the versions of all that computes."""
    versions = {"tf_transformer": tf_transformer.__version__, "python": platform.python_version()}
    versions |= {name: importlib.metadata.version(name) for name in _PACKAGES}
    now = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    return {"date": now, "versions": versions}
