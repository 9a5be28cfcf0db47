"""Models that were imported by name, kept as model directories in a cache."""

import os
import pathlib

from tf_transformer.formats.hf.download import download, parse
from tf_transformer.formats.import_model import read_model, write_model
from tf_transformer.storage.new_folder import check_new_folder

# To be raised when the same files give another model directory.
_VERSION = 1


def imported_model_dir(name: str) -> pathlib.Path:
    """Returns the model directory of a model of the Hub; imports it once for each commit.

        translator = Translator.load("hf:Helsinki-NLP/opus-mt-en-de")  # calls it

    Args:
        name: `hf:OWNER/NAME` or `hf:OWNER/NAME@REVISION`.

    Raises:
        InputError: as `parse`, `download` and `import_model`.
        OSError: a file cannot be written.
    """
    model = parse(name)
    folder = download(model)
    owner, name = model.repository.split("/")
    model_dir = _cache() / f"imported-{_VERSION}" / f"{owner}--{name}--{folder.name}"
    if not model_dir.exists():
        check_new_folder(model_dir)
        found = read_model(folder)
        try:
            write_model(found, folder, model_dir)
        except OSError:
            if not model_dir.exists():  # another process was faster
                raise
    return model_dir


def _cache():
    """Returns the folder that `TF_TRANSFORMER_CACHE` names, or the usual one of the user."""
    if given := os.environ.get("TF_TRANSFORMER_CACHE"):
        return pathlib.Path(given)
    caches = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache")
    return caches.expanduser() / "tf_transformer"
