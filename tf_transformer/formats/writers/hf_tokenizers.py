"""The files of tokenizers that `hf_writer` writes, and the ids of special tokens in them.

`MarianFiles` hold any SentencePiece models and any ids. BART's byte-level BPE and mBART's codes of
languages behind the text need tokenizers of their own.
"""

import pathlib
from collections.abc import Sequence
from typing import Any, Protocol

from tf_transformer.errors import InputError
from tf_transformer.formats.hf.marian import (
    SOURCE_MODEL_NAME,
    TARGET_MODEL_NAME,
    TARGET_VOCABULARY_NAME,
    VOCABULARY_NAME,
)
from tf_transformer.formats.hf.mbart import CC25_CODES
from tf_transformer.formats.hf.tokenizer import MASK, MODEL_NAME, SPECIAL
from tf_transformer.formats.supported import ModelToConvert
from tf_transformer.formats.writers.byte_level_writer import TOKENS, write_byte_level
from tf_transformer.storage.json_files import write_json
from tf_transformer.text.language_tags import is_tag
from tf_transformer.text.sentencepiece_model_pb2 import ModelProto
from tf_transformer.text.special_ids import BEGIN_ID, END_ID, NUM_SPECIAL, PAD_ID, UNKNOWN_ID
from tf_transformer.text.vocabulary import WORD_BEGIN, Vocabulary


class TokenizerFiles(Protocol):
    """The files of a model's tokenizer.

    Attributes:
        source_rows, rows: our id of each written id, of the source and of the target.
    """

    source_rows: list[int]
    rows: list[int]

    def ids(self) -> dict[str, int]:
        """Returns the settings of `config.json` that are ids, but for those of padding and end."""

    def description(self) -> dict[str, Any]:
        """Returns the settings of `tokenizer_config.json`."""

    def write(self, folder: pathlib.Path) -> None:
        """Writes the vocabularies to an existing folder."""

    def notes(self) -> list[str]:
        """Returns what the format changes, a sentence each."""


class MarianFiles:
    """The files of `MarianTokenizer`, see `TokenizerFiles`.

    Args:
        model: the model.
        order: our ids of the first written ids; the others are the same.
    """

    def __init__(self, model: ModelToConvert, order: Sequence[int]):
        self._config, self._source, self._target = model.config, model.source, model.target
        self.source_rows = [*order, *range(len(order), model.source.vocab_size)]
        self.rows = [*order, *range(len(order), model.target.vocab_size)]

    def ids(self) -> dict[str, int]:
        """Returns the ids of what starts a text and the decoder."""
        begin = self.rows.index(BEGIN_ID)
        start = self.rows.index(END_ID) if self._config.begin_embedding == "end" else begin
        return {"bos_token_id": begin, "decoder_start_token_id": start}

    def description(self) -> dict[str, Any]:
        """Returns the names of the special pieces, and whether the sides have two vocabularies."""
        return {
            "tokenizer_class": "MarianTokenizer",
            "separate_vocabs": not self._is_shared,
            "pad_token": self._target.pieces[PAD_ID],
            "unk_token": self._target.pieces[UNKNOWN_ID],
            "eos_token": self._target.pieces[END_ID],
        }

    def write(self, folder: pathlib.Path) -> None:
        """Writes a SentencePiece model of each side, and the ids of its pieces."""
        (folder / SOURCE_MODEL_NAME).write_bytes(self._source.model)
        (folder / TARGET_MODEL_NAME).write_bytes(self._target.model)
        _write_ids(folder / VOCABULARY_NAME, self._source, self.source_rows)
        if not self._is_shared:
            _write_ids(folder / TARGET_VOCABULARY_NAME, self._target, self.rows)

    def notes(self) -> list[str]:
        """Returns where the language of an output is named."""
        if not self._config.num_target_tags:
            return []
        return ["`generate` needs the tag of the target language as forced_bos_token_id."]

    @property
    def _is_shared(self) -> bool:
        return self._config.tied_embeddings in ("all", "inputs")


class BartFiles:
    """The files of `BartTokenizer`, see `TokenizerFiles`.

    There is no row for the begin id, whose embedding is that of the end id.

    Args:
        vocabulary: the vocabulary of both sides, byte-level BPE.
    """

    def __init__(self, vocabulary: Vocabulary):
        self._vocabulary = vocabulary
        rows = [PAD_ID, UNKNOWN_ID, *range(END_ID, vocabulary.vocab_size)]
        self.source_rows = self.rows = rows

    def ids(self) -> dict[str, int]:
        """Returns the ids of the end, which starts the decoder, and of `<s>`, which follows it."""
        begin = self.rows.index(self._vocabulary.pieces.index(TOKENS["bos_token"], NUM_SPECIAL))
        return {
            "bos_token_id": begin,
            "decoder_start_token_id": self.rows.index(END_ID),
            "forced_bos_token_id": begin,
        }

    def description(self) -> dict[str, Any]:
        """Returns the names of the special pieces."""
        return {"tokenizer_class": "BartTokenizer", "add_prefix_space": False} | TOKENS

    def write(self, folder: pathlib.Path) -> None:
        """Writes `vocab.json` and `merges.txt`."""
        write_byte_level(folder, self._vocabulary, self.rows)

    def notes(self) -> list[str]:
        """Returns nothing."""
        return []


class MBartFiles:
    """The files of `MBartTokenizer`, that of mbart-large-cc25, see `TokenizerFiles`.

    Its ids are those of fairseq: the special pieces, the pieces of SentencePiece, the codes of the
    25 languages that it knows without a file, the mask, and rows without a name.

    Args:
        vocabulary: the vocabulary of both sides.

    Raises:
        InputError: the vocabulary has other languages, or pieces behind them.
    """

    def __init__(self, vocabulary: Vocabulary):
        names = names_of(vocabulary)[: vocabulary.vocab_size]
        self._first_tag = next((row for row, name in enumerate(names) if is_tag(name)), 0)
        named = [*(f">>{code}<<" for code in CC25_CODES), MASK]
        unnamed = [f"<row {row}>" for row in range(self._first_tag + len(named), len(names))]
        if names[self._first_tag :] != [*named, *unnamed]:
            raise InputError(
                "the format hf cannot hold a model with language_tags='end_and_begin' unless its "
                "vocabulary is that of mbart-large-cc25: pieces, the tags of its 25 languages in "
                f"their order, and {MASK}"
            )
        self._vocabulary = vocabulary
        rows = [BEGIN_ID, PAD_ID, END_ID, UNKNOWN_ID, *range(NUM_SPECIAL, len(names))]
        self.source_rows = self.rows = rows

    def ids(self) -> dict[str, int]:
        """Returns the id of `<s>`; the code of the target language starts the decoder."""
        return {"bos_token_id": self.rows.index(BEGIN_ID)}

    def description(self) -> dict[str, Any]:
        """Returns the name of the tokenizer, which knows its special pieces."""
        return {"tokenizer_class": "MBartTokenizer"}

    def write(self, folder: pathlib.Path) -> None:
        """Writes the SentencePiece model, whose ids are those of fairseq less 1."""
        model = ModelProto.FromString(self._vocabulary.model)
        pieces = list(model.pieces[NUM_SPECIAL : self._first_tag])
        del model.pieces[:]
        unknown, begin, end = SPECIAL[3], SPECIAL[0], SPECIAL[2]
        model.pieces.add(piece=unknown, score=0.0, type="UNKNOWN")
        for name in (begin, end):
            model.pieces.add(piece=name, score=0.0, type="CONTROL")
        model.pieces.extend(pieces)
        trainer = model.trainer_spec
        trainer.unk_id, trainer.bos_id, trainer.eos_id, trainer.pad_id = 0, 1, 2, -1
        trainer.unk_piece, trainer.bos_piece, trainer.eos_piece = unknown, begin, end
        (folder / MODEL_NAME).write_bytes(model.SerializeToString())

    def notes(self) -> list[str]:
        """Returns where the language of an output is named."""
        return ["`generate` needs the code of the target language as decoder_start_token_id."]


def tokenizer_files(model: ModelToConvert, order: Sequence[int]) -> TokenizerFiles:
    """Returns the files of a model's tokenizer.

    Args:
        model: the model.
        order: see `MarianFiles`.

    Raises:
        InputError: no tokenizer holds the model's vocabulary.
    """
    if model.target.is_byte_level:
        return BartFiles(model.target)
    if model.config.language_tags == "end_and_begin":
        return MBartFiles(model.target)
    return MarianFiles(model, order)


def names_of(vocabulary: Vocabulary) -> list[str]:
    """Returns the pieces as `MarianTokenizer` looks them up: it first separates tags from text."""
    return [
        piece.removeprefix(WORD_BEGIN) if is_tag(piece) else piece for piece in vocabulary.pieces
    ]


def _write_ids(path: pathlib.Path, vocabulary: Vocabulary, rows: Sequence[int]) -> None:
    names = names_of(vocabulary)
    write_json(path, {names[row]: written for written, row in enumerate(rows)})
