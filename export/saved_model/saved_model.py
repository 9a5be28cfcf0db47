"""Exports a translator as a SavedModel: temporary folder, verification, rename to a version."""

import errno
import logging
import os
import pathlib
import re
import shutil

import tensorflow as tf

from export.saved_model.deployment import MODEL_NAME, write_deployment, write_model_card
from export.saved_model.signatures import ServedTranslator
from export.saved_model.verification import sample_requests, sample_texts, verify, warm_up_texts
from export.saved_model.warm_up import write_warm_up
from tf_transformer.inference.translator import Translator
from tf_transformer.storage.files import check_export_folder, remove_leftovers, sync_to_disk

_log = logging.getLogger(__name__)
# The part of TensorFlow's error messages that names the failed operation.
_OPERATION = re.compile(r"\{\{\w+ [^{}]*\}\}\s*| \[Op.*", re.DOTALL)


def export_translator(
    translator: Translator,
    directory: pathlib.Path,
    signatures: list[str] | None = None,
    facts: dict | None = None,
) -> pathlib.Path:
    """Writes the translator as the next numbered version in a directory that TF Serving watches.

    The version is written and verified in a temporary folder, which a server ignores. It is renamed
    to its number only after verification has succeeded.

    Args:
        translator: the translator to export.
        directory: contains the numbered versions.
        signatures: names of the signatures to export, or None for all, see `ServedTranslator`.
        facts: further entries of the model card.

    Returns:
        The new version's folder.

    Raises:
        InputError: the SavedModel's answers differ from the translator's, or the directory's name
            cannot be used, see `check_export_folder`.
        OSError: a file cannot be written.
    """
    check_export_folder(directory)
    _log.info("Tracing the signatures")
    served = ServedTranslator(translator, signatures)
    directory.mkdir(parents=True, exist_ok=True)
    remove_leftovers(directory)
    written = directory / f".writing-{os.getpid()}"
    # Verified in a different folder, so that files that refer to the first one are found.
    temporary = directory / f".writing-{os.getpid()}.moved"
    try:
        _log.info("Saving the SavedModel")
        _save(served, written)
        written.rename(temporary)
        texts = sample_texts(translator)
        verify(served, texts, temporary)
        _log.info("Writing the warm-up requests and the settings of the server")
        write_warm_up(temporary, MODEL_NAME, sample_requests(served, warm_up_texts(texts)))
        write_model_card(temporary, translator, list(served.functions), facts or {})
        write_deployment(directory, list(served.functions))
        for path in temporary.rglob("*"):
            if path.is_file():
                sync_to_disk(path)  # before the rename, so that no power cut leaves half a version
        return _rename_to_next_version(temporary, directory)
    finally:
        shutil.rmtree(written, ignore_errors=True)
        shutil.rmtree(temporary, ignore_errors=True)


def _save(served: ServedTranslator, path: pathlib.Path) -> None:
    try:
        tf.saved_model.save(served, str(path), signatures=served.functions)
    except tf.errors.OpError as error:  # writing failed, as on a full disk
        reason = _OPERATION.sub("", error.message)
        raise OSError(errno.EIO, reason, str(path.parent)) from error


def _rename_to_next_version(temporary: pathlib.Path, directory: pathlib.Path) -> pathlib.Path:
    while True:
        names = [entry.name for entry in directory.iterdir()]
        versions = [int(name) for name in names if re.fullmatch("[0-9]+", name)]
        version = directory / str(max(versions, default=0) + 1)
        try:
            temporary.rename(version)
            return version
        except OSError as error:
            # Another export has taken this number; try the next one.
            if error.errno not in (errno.EEXIST, errno.ENOTEMPTY):
                raise
