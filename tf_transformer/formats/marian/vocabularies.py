"""Marian's vocabularies: SentencePiece models, and YAML files of pieces and their ids.

A model with YAML vocabularies translates text that is split into pieces beforehand. OPUS-MT's
models have `source.spm` and `target.spm` for it.
"""

import pathlib
from typing import NamedTuple

from tf_transformer.errors import InputError
from tf_transformer.formats.marian.sentencepiece_models import (
    read_pieces,
    with_special_ids,
    without_pad_and_begin,
)
from tf_transformer.formats.marian.yaml_vocabulary import read_entries, write_entries
from tf_transformer.formats.sentencepiece_ids import read_with_ids
from tf_transformer.formats.vocabulary_rows import VocabularyRows
from tf_transformer.formats.word_vocabulary import word_model
from tf_transformer.printable import shown
from tf_transformer.storage.regular_files import read_regular
from tf_transformer.text.special_ids import NUM_SPECIAL
from tf_transformer.text.vocabulary import MAX_MODEL_BYTES, WORD_BEGIN, Vocabulary

YAML_SUFFIXES = (".yml", ".yaml", ".json")
SENTENCEPIECE_SUFFIX = ".spm"
# The ids of the special pieces in Marian, and their names in YAML files, some from Nematus.
_END_ID, _UNKNOWN_ID = 0, 1
_END_NAMES, _UNKNOWN_NAMES = ("</s>", "eos"), ("<unk>", "UNK")


class ReadVocabulary(NamedTuple):
    """A vocabulary.

    Attributes:
        rows: its order.
        model: SentencePiece model with the ids of `rows`.
        is_segmented_before: whether texts must be pieces with spaces between them.
        notes: see `read_with_ids`.
    """

    rows: VocabularyRows
    model: bytes
    is_segmented_before: bool = False
    notes: tuple[str, ...] = ()


def read_vocabulary(path: pathlib.Path, segmentation: pathlib.Path) -> ReadVocabulary:
    """Reads the vocabulary of one side.

    Args:
        path: the vocabulary.
        segmentation: SentencePiece model of the pieces in a YAML file; it need not exist.

    Raises:
        InputError: the file is missing, damaged, or of another type.
    """
    if path.suffix == SENTENCEPIECE_SUFFIX:
        return _read_sentencepiece(path)
    if path.suffix not in YAML_SUFFIXES:
        raise InputError(
            f"{path}: expected a vocabulary named .spm, .yml, .yaml or .json; factored (.fsv) and "
            "others are not supported"
        )
    pieces = _read_yaml(path)
    rows = VocabularyRows.of(
        pieces,
        pad=None,
        unknown=_find_special(pieces, _UNKNOWN_ID, _UNKNOWN_NAMES, path),
        begin=None,
        end=_find_special(pieces, _END_ID, _END_NAMES, path),
    )
    if segmentation.exists():
        model, notes = read_with_ids(segmentation, rows.pieces)
        return ReadVocabulary(rows, model, notes=notes)
    return ReadVocabulary(rows, word_model(rows.pieces, "spaces"), is_segmented_before=True)


def _read_sentencepiece(path: pathlib.Path) -> ReadVocabulary:
    model = read_regular(path, MAX_MODEL_BYTES)
    try:
        pieces, unknown, end = read_pieces(model)
    except InputError as error:
        raise InputError(f"{path}: {error}") from error
    rows = VocabularyRows.of(pieces, pad=None, unknown=unknown, begin=None, end=end)
    return ReadVocabulary(rows, with_special_ids(model))


def _find_special(
    pieces: list[str], token_id: int, names: tuple[str, ...], path: pathlib.Path
) -> int:
    """Returns the id of a special piece, which can have another name at its usual id."""
    if len(pieces) > token_id and pieces[token_id] in names:
        return token_id
    if names[0] not in pieces:
        raise InputError(f"{path}: expected the piece {names[0]}")
    return pieces.index(names[0])


def _read_yaml(path: pathlib.Path) -> list[str]:
    """Returns the piece of each id, which are 0 to n - 1, each once."""
    entries = list(read_entries(read_regular(path, MAX_MODEL_BYTES), path))
    pieces: dict[int, str] = {}
    for piece, token_id in entries:
        if token_id >= len(entries) or token_id in pieces:
            raise InputError(
                f"{path}: expected the ids 0 to {len(entries) - 1}, each once, got {token_id} for "
                f"{shown(piece)}"
            )
        pieces[token_id] = piece
    return [pieces[token_id] for token_id in range(len(entries))]


def write_vocabulary(path: pathlib.Path, vocabulary: Vocabulary) -> None:
    """Writes a vocabulary that Marian loads: a SentencePiece model or YAML, by the path's suffix.

    Args:
        path: the file.
        vocabulary: the vocabulary; a SentencePiece model can be written unless it
            `is_renumbered`.
    """
    if path.suffix == SENTENCEPIECE_SUFFIX:
        path.write_bytes(without_pad_and_begin(vocabulary.model))
        return
    pieces = vocabulary.pieces[NUM_SPECIAL:]
    if vocabulary.word_separators:
        pieces = [piece.removeprefix(WORD_BEGIN) for piece in pieces]
    names = [_END_NAMES[0], _UNKNOWN_NAMES[0], *pieces]
    path.write_text(write_entries(names), encoding="utf-8")
