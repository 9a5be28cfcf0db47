"""Vocabularies in fairseq's order: four special ids, SentencePiece's pieces, languages' codes.

M2M100, NLLB and mBART have them: `sentencepiece.bpe.model` or `tokenizer.json`, and for M2M100
`vocab.json`.
"""

import pathlib
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from tf_transformer.errors import InputError
from tf_transformer.formats.hf.added_tokens import TOKENIZER_NAME, added_names
from tf_transformer.formats.hf.folder import Seq2SeqSettings
from tf_transformer.formats.hf.generation import FORCED_BEGIN, Generation
from tf_transformer.formats.hf.marian import SOURCE_MODEL_NAME, read_marian_vocabulary
from tf_transformer.formats.hf.tokenizer import MODEL_NAME, SPECIAL, Names, read_names
from tf_transformer.formats.hf.tokenizer_json import check_beside_model, sentencepiece_model
from tf_transformer.formats.sentencepiece_ids import pieces_of, with_ids
from tf_transformer.formats.vocabulary_rows import VocabularyRows
from tf_transformer.storage.regular_files import read_regular
from tf_transformer.text.language_tags import is_tag, languages_of
from tf_transformer.text.special_ids import NUM_SPECIAL
from tf_transformer.text.vocabulary import MAX_MODEL_BYTES

_MAX_UNNAMED = 127


class FairseqVocabulary(NamedTuple):
    """The vocabulary of both sides, their SentencePiece models with its ids, and notes."""

    rows: VocabularyRows
    source_model: bytes
    target_model: bytes
    notes: tuple[str, ...] = ()


def read_fairseq_vocabulary(
    folder: pathlib.Path, settings: Seq2SeqSettings, codes: Sequence[str] = ()
) -> FairseqVocabulary:
    """Reads the vocabulary, or that of Marian's tokenizer, which `hf_writer` writes.

    Args:
        folder: the folder.
        settings: the model's settings.
        codes: see `read_names`.

    Raises:
        InputError: a file is missing or damaged, or the files do not fit together.
    """
    if (folder / SOURCE_MODEL_NAME).exists():
        return _read_marian_vocabulary(folder, settings)
    return _read_vocabulary(folder, settings, codes)


def _read_marian_vocabulary(folder: pathlib.Path, settings: Seq2SeqSettings) -> FairseqVocabulary:
    """Reads the vocabulary and the SentencePiece models that `hf_writer` writes."""
    vocabulary = read_marian_vocabulary(folder, settings)
    return FairseqVocabulary(vocabulary.source, *vocabulary.read_models(folder))


def _read_vocabulary(
    folder: pathlib.Path, settings: Seq2SeqSettings, codes: Sequence[str]
) -> FairseqVocabulary:
    """Reads the vocabulary and its SentencePiece model."""
    path = folder / MODEL_NAME
    if (folder / TOKENIZER_NAME).exists() and not path.exists():
        path = folder / TOKENIZER_NAME
        model = sentencepiece_model(path, {*SPECIAL, *added_names(folder)})
        _pieces(path, model)
        names = read_names(folder, None, codes)
    else:
        check_beside_model(folder / TOKENIZER_NAME)
        model = read_regular(path, MAX_MODEL_BYTES)
        names = read_names(folder, _pieces(path, model), codes)
    rows = _read_rows(folder, names, settings)
    renumbered = with_ids(model, rows.pieces, names.words)
    return FairseqVocabulary(rows, renumbered, renumbered, names.notes)


def begin_notes(
    folder: pathlib.Path, generation: Generation, rows: VocabularyRows
) -> Iterator[str]:
    """Yields what the user must know of the language that the original's outputs begin with.

    Args:
        folder: the folder.
        generation: its settings of `generate`.
        rows: the vocabulary.

    Raises:
        InputError: they begin with another token.
    """
    yield from language_notes(folder, FORCED_BEGIN, generation.forced_begin(), rows)


def language_notes(
    folder: pathlib.Path, setting: str, row: int | None, rows: VocabularyRows
) -> Iterator[str]:
    """Yields that a setting names the language of outputs, which is given for each text here.

    Args:
        folder: the folder.
        setting: the setting.
        row: its value, the id of a language's code; None if there is none.
        rows: the vocabulary.

    Raises:
        InputError: it is the id of something else.
    """
    if row is not None:
        ids = np.flatnonzero(rows.rows == row)
        piece = rows.pieces[ids[0] - NUM_SPECIAL] if ids.size and ids[0] >= NUM_SPECIAL else ""
        if not is_tag(piece):
            raise InputError(
                f"{folder}: {setting}={row} must be the id of a language's code, since "
                "outputs begin with one"
            )
        (language,) = languages_of([piece])
        yield (
            f"the original translates into {language.strip('<>')} if no language is named "
            f"({setting}); here it must be: --target-language {language.strip('<>')}"
        )


def _read_rows(folder: pathlib.Path, read: Names, settings: Seq2SeqSettings) -> VocabularyRows:
    names = read.names
    if len(names) > settings.vocab_size:
        raise InputError(
            f"{folder}: the tokenizer has {len(names)} ids, more than vocab_size="
            f"{settings.vocab_size}"
        )
    for name, token_id, piece in (
        ("pad", settings.pad_token_id, "<pad>"),
        ("eos", settings.eos_token_id, "</s>"),
        ("decoder_start", settings.decoder_start_token_id, "</s>"),
    ):
        if not 0 <= token_id < len(names) or names[token_id] != piece:
            raise InputError(
                f"{folder}: {name}_token_id must be the id of {piece}. Received: {token_id}"
            )
    for piece in ("<s>", "<unk>"):
        if piece not in names:
            raise InputError(f"{folder}: expected the piece {piece}")
    # The matrix has more rows than there are names: 8 in M2M100, 2 in NLLB, up to 127 if it was
    # resized to a multiple of 128.
    unnamed = [f"<row {row}>" for row in range(len(names), settings.vocab_size)]
    if read.are_guessed and len(unnamed) > _MAX_UNNAMED:
        raise InputError(
            f"{folder}: no file states the ids of the languages, and {len(unnamed)} of "
            f"{settings.vocab_size} rows have no name; save the tokenizer with a newer version of "
            "Transformers, which writes tokenizer.json or added_tokens_decoder"
        )
    return VocabularyRows.of(
        names + unnamed,
        pad=settings.pad_token_id,
        unknown=names.index("<unk>"),
        begin=names.index("<s>"),
        end=settings.eos_token_id,
    )


def _pieces(path: pathlib.Path, model: bytes) -> list[str]:
    try:
        return pieces_of(model)
    except InputError as error:
        raise InputError(f"{path}: {error}") from error
