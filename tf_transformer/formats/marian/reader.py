"""Reading of Marian's models: Transformers, and students with a recurrent decoder (SSRU)."""

import pathlib
from collections.abc import Iterator
from typing import Any

import numpy as np

from tf_transformer.config import TransformerConfig
from tf_transformer.errors import InputError
from tf_transformer.formats.imported_model import SHORTLIST_NAME, ImportedModel
from tf_transformer.formats.marian.binary_model import read_binary_model
from tf_transformer.formats.marian.binary_shortlist import read_binary_shortlist
from tf_transformer.formats.marian.compressed_files import has_compressed_files, unpack
from tf_transformer.formats.marian.folder import (
    BINARY_SUFFIX,
    MarianFiles,
    find_files,
    is_marian,
)
from tf_transformer.formats.marian.settings import MarianSettings, read_settings
from tf_transformer.formats.marian.vocabularies import ReadVocabulary, read_vocabulary
from tf_transformer.formats.marian.weights import MarianWeights, marian_names
from tf_transformer.formats.naming import convert_weights
from tf_transformer.formats.tensors.opening import open_tensors
from tf_transformer.formats.tensors.stored_file import StoredFile, naming
from tf_transformer.formats.tensors.tensor_file import TensorFile
from tf_transformer.formats.vocabulary_rows import row_edits
from tf_transformer.formats.word_vocabulary import SEGMENTED_BEFORE
from tf_transformer.shortlists.table import lines_of
from tf_transformer.storage.weight_shapes import weight_shapes
from tf_transformer.text.vocabulary import Vocabulary

# Of `layerNorm` in Marian's src/layers/generic.h.
LAYER_NORM_EPSILON = 1e-6
# The default of `--max-length` in translation.
_MAX_LENGTH = 1000


class Marian:
    """Marian's own format, see `ModelFormat`."""

    name = "marian"

    def recognizes(self, path: pathlib.Path) -> bool:
        """Returns whether there is a model of Marian, by the names and beginnings of files."""
        return is_marian(path) or has_compressed_files(path)

    def read(self, path: pathlib.Path) -> ImportedModel:
        """Reads a model.

        Marian has neither pad nor begin id, and its decoder starts with a zero vector. Their rows
        of the embeddings are zero, and their logits get the bias `NO_OUTPUT`.

        Args:
            path: the `.npz` or `.bin` file, or the folder. A model that is compressed by gzip is
                unpacked into a temporary folder, with what is beside it.

        Raises:
            InputError: a file is missing or damaged, the files do not fit together, or a setting is
                not supported.
        """
        if has_compressed_files(path):
            is_folder = path.is_dir()
            unpacked = unpack(path if is_folder else path.parent)
            imported = self.read(pathlib.Path(unpacked.name, "" if is_folder else path.stem))
            return imported._replace(weights=_holding(unpacked, imported.weights))
        files = find_files(path)
        file = _open(files.model)
        settings, model_settings = read_settings(file)
        source, target = _read_vocabularies(files, settings)
        names = marian_names(model_settings["norm_position"], settings.tying)
        weights = MarianWeights(
            file,
            names,
            (source.rows.original_size, target.rows.original_size),
            has_logits_bias=not settings.output_omit_bias,
        )
        config = TransformerConfig(
            source_vocab_size=source.rows.vocab_size,
            target_vocab_size=target.rows.vocab_size,
            positions="concatenated",
            begin_embedding="zero",
            logits_bias=True,
            layer_norm_epsilon=LAYER_NORM_EPSILON,
            max_length=_MAX_LENGTH,
            **model_settings,
        )
        edits = row_edits(source.rows, target.rows)
        shortlist, notes = _read_shortlist(files, source, target)
        return ImportedModel(
            config,
            source.model,
            target.model,
            convert_weights(weight_shapes(config), names, weights, edits),
            (*_notes(source, target), *files.notes, *notes),
            shortlist,
            files.search.options,
        )


def _open(path: pathlib.Path) -> TensorFile:
    if path.suffix != BINARY_SUFFIX:
        return open_tensors(path)
    with naming(path):
        file = StoredFile(path)
        return TensorFile(path, read_binary_model(file), [file])


def _holding(
    _folder: Any, weights: Iterator[tuple[str, np.ndarray]]
) -> Iterator[tuple[str, np.ndarray]]:
    """Yields the weights, and keeps a temporary folder until then."""
    yield from weights


def _notes(source: ReadVocabulary, target: ReadVocabulary) -> tuple[str, ...]:
    is_segmented_before = source.is_segmented_before or target.is_segmented_before
    return source.notes + target.notes + ((SEGMENTED_BEFORE,) if is_segmented_before else ())


def _read_shortlist(
    files: MarianFiles, source: ReadVocabulary, target: ReadVocabulary
) -> tuple[Iterator[str] | None, tuple[str, ...]]:
    """Returns the lines of a shortlist, and what the user must know of it.

    Deviation: here each sentence has its own candidates; Marian's are those of a whole batch, with
    the next most frequent pieces up to a multiple of 8.
    """
    if files.shortlist is None:
        return None, ()
    sizes = source.rows.original_size, target.rows.original_size
    found = read_binary_shortlist(files.shortlist, *sizes)
    rows = found.by_source(source.rows, target.rows, shared=files.source == files.target)
    lines = lines_of(
        found.always(target.rows), rows, Vocabulary(source.model), Vocabulary(target.model)
    )
    note = (
        f"{files.shortlist.name} is {SHORTLIST_NAME} here, for --shortlist; the candidates are "
        "those of a sentence, in Marian those of its batch, and a few more up to a multiple of 8."
    )
    return lines, (note,)


def _read_vocabularies(
    files: MarianFiles, settings: MarianSettings
) -> tuple[ReadVocabulary, ReadVocabulary]:
    sides = []
    for side, path, size in zip(
        ("source", "target"), (files.source, files.target), settings.dim_vocabs, strict=True
    ):
        vocabulary = read_vocabulary(path, path.with_name(f"{side}.spm"))
        found = vocabulary.rows.original_size
        if found != size:
            raise InputError(
                f"{path}: expected {size} entries, as in dim-vocabs of the model, got {found}"
            )
        sides.append(vocabulary)
    return sides[0], sides[1]
