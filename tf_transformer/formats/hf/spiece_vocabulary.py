"""Vocabularies of the tokenizers of T5 and Pegasus: `spiece.model`, and special ids around it.

T5 has SentencePiece's ids, and sentinels after them; Pegasus has special ids before them.
"""

import pathlib
from collections.abc import Callable, Sequence
from typing import NamedTuple

from tf_transformer.errors import InputError
from tf_transformer.formats.added_words import AddedWord
from tf_transformer.formats.hf.added_tokens import (
    DESCRIPTION_NAME,
    TOKENIZER_NAME,
    AddedToken,
    TokenIds,
    added_names,
    find_words,
    read_added_tokens,
    read_description,
)
from tf_transformer.formats.hf.marian import (
    SOURCE_MODEL_NAME,
    VocabularySettings,
    read_marian_vocabulary,
)
from tf_transformer.formats.hf.tokenizer_json import (
    check_beside_model,
    piece_ids,
    sentencepiece_model,
)
from tf_transformer.formats.sentencepiece_ids import pieces_of, with_ids
from tf_transformer.formats.vocabulary_rows import VocabularyRows
from tf_transformer.printable import shown
from tf_transformer.storage.regular_files import read_regular
from tf_transformer.text.language_tags import is_tag
from tf_transformer.text.sentencepiece_model_pb2 import ModelProto
from tf_transformer.text.vocabulary import MAX_MODEL_BYTES

MODEL_NAME = "spiece.model"
_SPECIAL = ("<pad>", "</s>", "<unk>")
# The names of Pegasus' first ids, which take the place of the first pieces of `spiece.model`.
_PEGASUS = ("<pad>", "</s>", "<mask_1>", "<mask_2>", *(f"<unk_{i}>" for i in range(2, 103)))
_NUM_REPLACED = 2
# The number of sentinels, `<extra_id_0>` and so on, of a tokenizer whose files name none.
_NUM_SENTINELS = 100
# Matrices have more rows than there are ids, since their number was rounded up.
_MAX_UNNAMED = 2**11


class SpieceVocabulary(NamedTuple):
    """The vocabulary of both sides.

    Attributes:
        folder: the folder, for error messages.
        names: the name of each id; words are their pieces.
        words: the words that were added to the tokenizer, such as sentinels.
        model: the SentencePiece model, with its own ids.
        notes: see `ImportedModel`.
    """

    folder: pathlib.Path
    names: list[str]
    words: tuple[AddedWord, ...]
    model: bytes
    notes: tuple[str, ...]

    def rows(self, *, pad: int, begin: int, end: int) -> VocabularyRows:
        """Returns the order of the vocabulary here.

        Args:
            pad: the original's id of padding.
            begin: its id that starts the decoder.
            end: its id of the end.

        Raises:
            InputError: one of them is no id, or that of a piece of text, the end is another special
                id, or there is no `<unk>`.
        """
        pieces = ModelProto.FromString(self.model).pieces
        of_text = {piece.piece for piece in pieces if piece.type == piece.NORMAL}
        for name, token_id in (("pad", pad), ("decoder_start", begin), ("eos", end)):
            if not 0 <= token_id < len(self.names):
                raise InputError(
                    f"{self.folder}: {name}_token_id must be one of the {len(self.names)} ids. "
                    f"Received: {token_id}"
                )
            if self.names[token_id] in of_text:  # texts with this piece would lose it
                raise InputError(
                    f"{self.folder}: {name}_token_id must be a special id. Received: {token_id}, "
                    f"which is {shown(self.names[token_id])}"
                )
        if "<unk>" not in self.names:
            raise InputError(f"{self.folder}: expected the piece <unk>")
        unknown = self.names.index("<unk>")
        if end in (pad, begin, unknown):
            raise InputError(
                f"{self.folder}: eos_token_id must be an id of its own. Received: {end}, which is "
                f"{shown(self.names[end])}"
            )
        return VocabularyRows.of(self.names, pad=pad, unknown=unknown, begin=begin, end=end)

    def sentencepiece_model(self, rows: VocabularyRows) -> bytes:
        """Returns the SentencePiece model with the ids of `rows`."""
        return with_ids(self.model, rows.pieces, self.words)


def read_t5_vocabulary(folder: pathlib.Path, size: int) -> SpieceVocabulary:
    """Reads the vocabulary of T5.

    Args:
        folder: the folder.
        size: number of rows of the embeddings.

    Raises:
        InputError: a file is missing or damaged, the files contradict each other, or there are more
            ids than rows, or far fewer.
    """
    ids = TokenIds(folder)
    model = _read_pieces(folder, ids)
    added = read_added_tokens(folder)
    if not added:
        sentinels = _sentinels(folder)
        ids.fill(sentinels, DESCRIPTION_NAME)
        added = [
            AddedToken(name, ids.by_name[name], DESCRIPTION_NAME, {"special": True})
            for name in sentinels
        ]
    return _vocabulary(folder, ids, added, model, size)


def read_pegasus_vocabulary(folder: pathlib.Path, size: int) -> SpieceVocabulary:
    """Reads the vocabulary of Pegasus; arguments and errors as for `read_t5_vocabulary`."""
    ids = TokenIds(folder)
    model = _read_pieces(folder, ids, _PEGASUS, _NUM_REPLACED)
    return _vocabulary(folder, ids, read_added_tokens(folder), model, size)


def read_models(
    folder: pathlib.Path,
    settings: VocabularySettings,
    read: Callable[[pathlib.Path, int], SpieceVocabulary],
) -> tuple[VocabularyRows, bytes, bytes, tuple[str, ...]]:
    """Reads the vocabulary, or that of Marian's tokenizer, which `hf_writer` writes.

    Args:
        folder: the folder.
        settings: the settings that belong to the vocabulary.
        read: `read_t5_vocabulary` or `read_pegasus_vocabulary`.

    Returns:
        The order of the vocabulary here, the SentencePiece models of source and target with its
        ids, and notes, see `ImportedModel`.

    Raises:
        InputError: a file is missing or damaged, or the files do not fit together.
    """
    if (folder / SOURCE_MODEL_NAME).exists():
        found = read_marian_vocabulary(folder, settings)
        return found.source, *found.read_models(folder)
    vocabulary = read(folder, settings.vocab_size)
    rows = vocabulary.rows(
        pad=settings.pad_token_id,
        begin=settings.decoder_start_token_id,
        end=settings.eos_token_id,
    )
    model = vocabulary.sentencepiece_model(rows)
    return rows, model, model, vocabulary.notes


def _read_pieces(
    folder: pathlib.Path, ids: TokenIds, first: Sequence[str] = (), num_replaced: int = 0
) -> bytes:
    """Reads `spiece.model` or `tokenizer.json`.

    Args:
        folder: the folder.
        ids: the ids, to which those of the pieces are added.
        first: names of the ids before those of `spiece.model`.
        num_replaced: number of its first pieces that these replace.

    Returns:
        The SentencePiece model.
    """
    path = folder / MODEL_NAME
    if path.exists() or not (folder / TOKENIZER_NAME).exists():
        check_beside_model(folder / TOKENIZER_NAME)
        model = read_regular(path, MAX_MODEL_BYTES)
        try:
            pieces = pieces_of(model)
        except InputError as error:
            raise InputError(f"{path}: {error}") from error
        for token_id, name in enumerate([*first, *pieces[num_replaced:]]):
            ids.state(name, token_id, MODEL_NAME)
        return model
    path = folder / TOKENIZER_NAME
    for name, token_id in piece_ids(path).items():
        ids.state(name, token_id, path.name)
    return sentencepiece_model(path, {*_SPECIAL, *added_names(folder)})


def _vocabulary(
    folder: pathlib.Path,
    ids: TokenIds,
    added: Sequence[AddedToken],
    model: bytes,
    size: int,
) -> SpieceVocabulary:
    for token in added:
        ids.state(token.name, token.token_id, token.file)
    tags = [token.name for token in added if isinstance(token.name, str) and is_tag(token.name)]
    words = find_words(folder, added, {*_SPECIAL, "<s>", *tags})
    names = [words[name].piece if name in words else name for name in ids.names()]
    if not 0 <= size - len(names) <= _MAX_UNNAMED:
        raise InputError(
            f"{folder}: the tokenizer has {len(names)} ids, and vocab_size={size}; expected as "
            "many, or some more rows"
        )
    names += [f"<row {row}>" for row in range(len(names), size)]
    return SpieceVocabulary(folder, names, tuple(words.values()), model, ())


def _sentinels(folder: pathlib.Path) -> list[str]:
    """Returns the sentinels in the order of their ids, of which the files name none.

    Raises:
        InputError: their number is none.
    """
    path = folder / DESCRIPTION_NAME
    number = read_description(path).get("extra_ids") if path.exists() else None
    number = _NUM_SENTINELS if number is None else number
    if type(number) is not int or not 0 <= number <= _MAX_UNNAMED:
        raise InputError(f"{path}: extra_ids must be the number of sentinels. Received: {number!r}")
    return [f"<extra_id_{index}>" for index in reversed(range(number))]
