"""Models of the Hugging Face Hub by name, such as `hf:Helsinki-NLP/opus-mt-en-de`.

The package `huggingface_hub` downloads and caches them; its environment variables hold: HF_HOME,
HF_TOKEN, HF_ENDPOINT, HF_HUB_OFFLINE. What is downloaded is what the readers of this folder read.
"""

import contextlib
import functools
import os
import pathlib
import re
import sys
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, TypeGuard

from tf_transformer.errors import InputError
from tf_transformer.formats.hf.added_tokens import ADDED_NAME, TOKENIZER_NAME
from tf_transformer.formats.hf.byte_vocabulary import MERGES_NAME
from tf_transformer.formats.hf.folder import CONFIG_NAME, GENERATION_NAME
from tf_transformer.formats.hf.indictrans import SOURCE_NAMES, TARGET_NAMES
from tf_transformer.formats.hf.m2m100 import SMALL100_NAME
from tf_transformer.formats.hf.marian import (
    SOURCE_MODEL_NAME,
    TARGET_MODEL_NAME,
    TARGET_VOCABULARY_NAME,
)
from tf_transformer.formats.hf.spiece_vocabulary import MODEL_NAME as SPIECE_MODEL_NAME
from tf_transformer.formats.hf.tokenizer import DESCRIPTION_NAMES, MODEL_NAME, VOCABULARY_NAME
from tf_transformer.formats.hf.weights import WEIGHTS_NAMES
from tf_transformer.printable import printable, shown
from tf_transformer.storage.json_files import read_json

PREFIX = "hf:"
_SETTINGS = {
    *(CONFIG_NAME, GENERATION_NAME, MODEL_NAME, SPIECE_MODEL_NAME, VOCABULARY_NAME),
    *(SOURCE_MODEL_NAME, TARGET_MODEL_NAME, TARGET_VOCABULARY_NAME),
    MERGES_NAME,
    *(ADDED_NAME, TOKENIZER_NAME, *DESCRIPTION_NAMES),
    *(*SOURCE_NAMES, *TARGET_NAMES),
    SMALL100_NAME,  # which says where languages are named, and is never run
}
_PART = r"[A-Za-z0-9](?:[\w.-]{0,94}[\w])?"
_NAME = re.compile(rf"hf:(?P<repository>{_PART}/{_PART})(?:@(?P<revision>[\w][\w./-]{{0,199}}))?")
_FILE_NAME = re.compile(r"[\w-][\w.-]{0,199}")


class HubModel(NamedTuple):
    """A model of the Hub.

    Attributes:
        repository: its owner and name, with a slash between them.
        revision: a branch, a tag or a commit; None is the main branch.
    """

    repository: str
    revision: str | None = None

    def __str__(self) -> str:
        """Returns the name that `parse` reads."""
        return PREFIX + self.repository + (f"@{self.revision}" if self.revision else "")


def is_hub_name(value: Any) -> TypeGuard[str]:
    """Returns whether a value is the name of a model of the Hub, and no path."""
    return isinstance(value, str) and value.startswith(PREFIX)


def lacks_prefix(value: Any) -> TypeGuard[str]:
    """Returns whether a value is no path, and with the prefix would be a name of the Hub."""
    return (
        isinstance(value, str)
        and _NAME.fullmatch(PREFIX + value) is not None
        and not os.path.lexists(value)
    )


def parse(name: str) -> HubModel:
    """Reads the name of a model.

    Args:
        name: `hf:OWNER/NAME` or `hf:OWNER/NAME@REVISION`.

    Raises:
        InputError: it is not such a name.
    """
    match = _NAME.fullmatch(name)
    if match is None or ".." in name or "--" in name:
        raise InputError(
            f"{printable(name, 200)}: expected hf:OWNER/NAME or hf:OWNER/NAME@REVISION, such as "
            "hf:Helsinki-NLP/opus-mt-en-de"
        )
    return HubModel(match["repository"], match["revision"])


def download(model: HubModel) -> pathlib.Path:
    """Downloads what a model's readers need, unless it is in the cache.

    Weights are those in safetensors where there are both. An interrupted download goes on where it
    ended.

    Args:
        model: the model.

    Returns:
        The folder in the cache, whose name is the commit.

    Raises:
        InputError: there is no such model or revision, it is gated, has no files of a model, or
            cannot be reached, or huggingface_hub is not installed.
        OSError: a file cannot be written.
    """
    try:
        import huggingface_hub
        from huggingface_hub import constants
    except ImportError as error:
        raise InputError(
            f"{model}: needs huggingface_hub: pip install 'tf-transformer[hf]'"
        ) from error
    with _errors_in_one_line(model), _progress():
        if constants.HF_HUB_OFFLINE:
            return _cached(model)
        hub = huggingface_hub.HfApi()

        def fetch(name, revision):
            return pathlib.Path(hub.hf_hub_download(model.repository, name, revision=revision))

        # By the name of the revision, so that the cache knows its commit, and then by the commit.
        folder = fetch(CONFIG_NAME, model.revision).parent
        fetch = functools.partial(fetch, revision=folder.name)
        listed = hub.model_info(model.repository, revision=folder.name).siblings
        names = {file.rfilename for file in listed or ()}
        weights = next((name for name in WEIGHTS_NAMES if name in names), None)
        if weights is None:
            raise InputError(
                f"{model}: expected one of {', '.join(WEIGHTS_NAMES)}, got "
                f"{shown(sorted(names)[:20])}"
            )
        for name in sorted(_SETTINGS & names):
            fetch(name)
        path = fetch(weights)
        for name in _shards(path) if path.name.endswith(".index.json") else ():
            fetch(name)
        return folder


def _shards(index: pathlib.Path) -> Sequence[str]:
    """Returns the names of the files of weights that an index lists.

    Raises:
        InputError: one is not the name of a file beside the index.
    """
    names = read_json(index).get("weight_map")
    values = sorted(set(map(str, names.values()))) if isinstance(names, dict) else []
    for name in values:
        if not _FILE_NAME.fullmatch(name):
            raise InputError(f"{index}: expected names of files, got {shown(name)}")
    if not values:
        raise InputError(f"{index}: expected a weight_map of names and files")
    return values


def _cached(model):
    """Returns the folder of a model that was downloaded earlier."""
    import huggingface_hub

    config = huggingface_hub.try_to_load_from_cache(
        model.repository, CONFIG_NAME, revision=model.revision
    )
    folder = pathlib.Path(config).parent if isinstance(config, str) else None
    if folder is None or not _has_weights(folder):
        raise InputError(f"{model}: not complete in the cache, and HF_HUB_OFFLINE is set")
    return folder


def _has_weights(folder):
    """Returns whether all files of weights are there, which are downloaded last."""
    path = next((folder / name for name in WEIGHTS_NAMES if (folder / name).exists()), None)
    if path is None or not path.name.endswith(".index.json"):
        return path is not None
    return all((folder / name).exists() for name in _shards(path))


@contextlib.contextmanager
def _progress() -> Iterator[None]:
    """Shows the progress of downloads on a terminal only."""
    from huggingface_hub import utils

    if sys.stderr.isatty() or utils.are_progress_bars_disabled():
        yield
        return
    utils.disable_progress_bars()
    try:
        yield
    finally:
        utils.enable_progress_bars()


@contextlib.contextmanager
def _errors_in_one_line(model: HubModel) -> Iterator[None]:
    """Says what failed, in one line.

    Raises:
        InputError: for all errors of the Hub and of the connection to it.
    """
    from huggingface_hub import constants, errors

    where = constants.ENDPOINT
    try:
        yield
    except InputError:
        raise
    except errors.GatedRepoError as error:
        raise InputError(
            f"{model}: gated; accept its conditions at {where}/{model.repository}, and give a "
            "token that may read it, in HF_TOKEN or by `hf auth login`"
        ) from error
    except errors.RevisionNotFoundError as error:
        raise InputError(f"{model}: there is no such revision") from error
    except errors.RepositoryNotFoundError as error:
        raise InputError(
            f"{model}: there is no such repository at {where}, or it is private and HF_TOKEN, or "
            "`hf auth login`, has no token that may read it"
        ) from error
    except errors.RemoteEntryNotFoundError as error:
        name = printable(str(error.response.url).rpartition("/")[2], 100)
        raise InputError(f"{model}: there is no file {name}") from error
    except errors.HfHubHTTPError as error:
        raise InputError(f"{model}: {_first_line(error)}") from error
    except Exception as error:  # the classes of its HTTP library depend on the version
        if type(error).__module__ == "builtins" and not isinstance(error, ConnectionError):
            raise
        is_general = isinstance(error, errors.LocalEntryNotFoundError)
        reason = _first_line((is_general and error.__cause__) or error).rstrip(".")
        raise InputError(
            f"{model}: {where} cannot be reached: {reason}; what was downloaded so far is kept. "
            "HF_HUB_OFFLINE=1 uses the cache"
        ) from error


def _first_line(error):
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return printable(lines[0] if lines else type(error).__name__, 300)
