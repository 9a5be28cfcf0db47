"""Exports a model as a SavedModel: temporary folder, verification, rename to a version."""

import contextlib
import errno
import logging
import os
import pathlib
import re
import secrets
import shutil
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import keras

from export.saved_model.deployment import MODEL_NAME, write_deployment, write_model_card
from export.saved_model.export_folder import check_export_folder
from export.saved_model.graph_options import loops_are_calls, without_graph_optimizer
from export.saved_model.graph_simplification import simplify_saved_model
from export.saved_model.signatures import ServedTranslator
from export.saved_model.verification import (
    compiled_requests,
    sample_requests,
    sample_texts,
    verify,
    warm_up_texts,
)
from export.saved_model.warm_up import write_warm_up
from tf_transformer.confidence.calibration import Calibration
from tf_transformer.decoding.search_options import SEARCH_OPTIONS
from tf_transformer.documents.abbreviations import LANGUAGES
from tf_transformer.inference.continuer import Continuer
from tf_transformer.inference.translator import Translator
from tf_transformer.language_id.identifier import LanguageIdentifier
from tf_transformer.quantization.int8 import is_quantized
from tf_transformer.storage.files import locked, remove_leftovers, sync_to_disk
from tf_transformer.storage.saved_model import write_saved_model
from tf_transformer.tasks.table import TASKS

if TYPE_CHECKING:  # KerasHub need not be installed
    from tf_transformer.hub.seq_2_seq_lm import TransformerSeq2SeqLM

_log = logging.getLogger(__name__)
# Signatures of one search for each row, without options or a prefix, which could select another.
_SEARCHING = tuple(
    task.plain
    for task in TASKS.values()
    if task.options == SEARCH_OPTIONS and len(task.inputs) == 1 and not task.reads_documents
)
_TEMPORARY_PREFIX = ".writing-version-"


@without_graph_optimizer()
def export_translator(
    translator: Translator | Continuer,
    directory: pathlib.Path,
    signatures: list[str] | None = None,
    facts: dict | None = None,
    *,
    calibration: Calibration | None = None,
    identifier: LanguageIdentifier | None = None,
    document_languages: Iterable[str] = LANGUAGES,
) -> pathlib.Path:
    """Writes the translator as the next numbered version in a directory that TF Serving watches.

    The version is written and verified in a temporary folder, which a server ignores. It is renamed
    to its number only after verification has succeeded. If another process exports to the same
    directory, this one waits for it.

    Args:
        translator: the translator to export, or the continuer of a language model.
        directory: contains the numbered versions.
        signatures: names of the signatures to export, or None for all, see `ServedTranslator`.
        facts: further entries of the model card.
        calibration: that of the model's confidences, for the signature `confidence`, if any.
        identifier: identifies languages, for the signature `language`, if any.
        document_languages: those of the documents, see `DocumentTranslator`.

    Returns:
        The new version's folder.

    Raises:
        InputError: the SavedModel's answers differ from the translator's, or the directory's name
            cannot be used, see `check_export_folder`.
        OSError: a file cannot be written.
    """
    check_export_folder(directory)
    _log.info("Tracing the signatures")
    served = ServedTranslator(
        translator,
        signatures,
        calibration=calibration,
        identifier=identifier,
        document_languages=document_languages,
    )
    directory.mkdir(parents=True, exist_ok=True)
    with (
        locked(directory, "exporting to it; waiting for its end", _log.info) as is_locked,
        _temporary_name(directory, is_locked) as written,
    ):
        _log.info("Saving the SavedModel")
        write_graph(served, translator.model, written)
        # Verified in a different folder, so that files that refer to the first one are found.
        temporary = written.rename(f"{written}.moved")
        texts, names = sample_texts(translator.tokenizers[0]), list(served.functions)
        is_translator = isinstance(translator, Translator)
        compiled = compiled_requests(served, translator) if is_translator else []
        verify(served, texts, temporary, compiled, is_int8=is_quantized(translator.model))
        _log.info("Writing the warm-up requests and the settings of the server")
        requests = sample_requests(served, warm_up_texts(texts))
        # All signatures share the compiled searches, so that one of them is enough.
        shared = next((name for name in names if name in _SEARCHING), names[0])
        first = [{shared: batch[shared]} for batch in compiled]
        write_warm_up(temporary, MODEL_NAME, requests, first)
        write_model_card(temporary, translator, names, facts or {})
        write_deployment(directory, names, is_compiled=bool(compiled))
        for path in temporary.rglob("*"):
            if path.is_file():
                sync_to_disk(path)  # before the rename, so that no power cut leaves half a version
        return _rename_to_next_version(temporary, directory)


def write_graph(served: ServedTranslator, model: keras.Model, folder: pathlib.Path) -> None:
    """Writes a SavedModel as a version of an export contains it.

    Args:
        served: the signatures, traced in `without_graph_optimizer`.
        model: the model that they use.
        folder: folder to write.

    Raises:
        OSError: a file cannot be written.
    """
    write_saved_model(served, folder, served.functions)
    simplify_saved_model(folder, loops_are_calls=loops_are_calls(model))


def export_task(
    task: "TransformerSeq2SeqLM",
    directory: str | os.PathLike,
    *,
    signatures: list[str] | None = None,
    dtype: str = "float32",
    **options: Any,
) -> pathlib.Path:
    """Writes a task of KerasHub as `tf-transformer export` writes its model directory.

    Args:
        task: the task; LoRA is merged.
        directory: contains the numbered versions, see `export_translator`.
        signatures: names of the signatures to export, or None for all.
        dtype: "float32", "bfloat16" or "int8", see `load_for_decoding`.
        **options: those of `Translator`, such as `beam_size` and `length_penalty`.

    Returns:
        The new version's folder.

    Raises:
        InputError: an argument is out of range, the task has no preprocessor or is quantized, or as
            `export_translator`.
        OSError: a file cannot be written.
    """
    check_export_folder(pathlib.Path(directory))
    translator = task.translator(dtype, **options)
    return export_translator(translator, pathlib.Path(directory), signatures)


@contextlib.contextmanager
def _temporary_name(directory: pathlib.Path, is_locked: bool) -> Iterator[pathlib.Path]:
    """Yields the path of a new temporary folder, which a server ignores, and removes it at the end.

    The name is random: process numbers are not unique if containers share the directory. Folders
    whose names continue it are removed as well.

    Args:
        directory: contains the numbered versions.
        is_locked: whether no other process exports to the directory; folders that killed processes
            have left are removed then.
    """
    remove_leftovers(directory)
    if is_locked:
        for path in directory.glob(f"{_TEMPORARY_PREFIX}*"):
            shutil.rmtree(path, ignore_errors=True)
    written = directory / f"{_TEMPORARY_PREFIX}{secrets.token_hex(8)}"
    try:
        yield written
    finally:
        for path in directory.glob(f"{written.name}*"):
            shutil.rmtree(path, ignore_errors=True)


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
