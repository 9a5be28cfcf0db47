"""The pieces of a SentencePiece model. This module does not import TensorFlow."""

import functools
import os
import re
from collections.abc import Sequence

import sentencepiece

from tf_transformer.argument_types import as_path
from tf_transformer.errors import InputError
from tf_transformer.known_names import nearest
from tf_transformer.printable import shown
from tf_transformer.text.byte_level.characters import SPACE, text_of
from tf_transformer.text.byte_level.parts import split_text
from tf_transformer.text.language_tags import is_tag, languages_of
from tf_transformer.text.special_ids import BEGIN_ID, END_ID, PAD_ID, UNKNOWN_ID
from tf_transformer.text.texts import list_of_texts

# The largest known vocabulary, of 256,000 pieces, takes about 5 MB.
MAX_MODEL_BYTES = 2**28
# Stands for the space before a word.
WORD_BEGIN = SPACE
# Pieces from this one on are not in the vocabulary: they take part in segmentation only, see
# `formats.sentencepiece_ids`.
OUTSIDE = "<outside the vocabulary>"
# The piece after `OUTSIDE` in a vocabulary of byte-level BPE, see `formats.hf.byte_vocabulary`.
BYTE_LEVEL = "<byte-level BPE>"
# And the piece after that if each text that is not empty begins with `<s>` twice: the first one
# moves to the target as the tag of its language does in others, see `text.framing`.
BEGINS_TWICE, _BEGIN = "<texts begin with <s> twice>", "<s>"
# What separates the words of a text, in vocabularies of words. "white space" is what `str.split`
# separates words at.
WORD_SEPARATORS = {
    "spaces": " ",
    "ASCII white space": " \t\n\v\f\r",
    "white space": " \t\n\v\f\r\x1c\x1d\x1e\x1f\x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005"
    "\u2006\u2007\u2008\u2009\u200a\u2028\u2029\u202f\u205f\u3000",
}


def words_mark(separators: str) -> str:
    """Returns the piece after `OUTSIDE` in a vocabulary of words, see `formats.word_vocabulary`.

    Args:
        separators: a key of `WORD_SEPARATORS`.
    """
    return f"<words between {separators}>"


class Vocabulary:
    """The pieces of a SentencePiece model and their ids.

    The special ids are 0 for padding, 1 for unknown pieces, 2 for the begin and 3 for the end of a
    sentence.

    Args:
        model: a serialized SentencePiece model, or the path of its file, such as the `source.spm`
            of a model directory.

    Attributes:
        model: the serialized SentencePiece model.
        vocab_size: number of ids of the vocabulary.
        is_renumbered: whether the SentencePiece model is the result of `with_ids`: it contains
            pieces that are not in the vocabulary, and others that are found by their text only.
        word_separators: the characters that separate words in a vocabulary of words, which are not
            segmented; None if SentencePiece segments texts.
        is_byte_level: whether SentencePiece segments the parts of a text one by one, and the pieces
            stand for bytes, see `text.byte_level`.
        begin_ids: the ids before those of each text that is not empty.

    Raises:
        InputError: `model` is not a SentencePiece model or its path, or has other special ids.
    """

    def __init__(self, model: bytes | str | os.PathLike):
        where = "" if isinstance(model, bytes) else f"{model!s}: "
        content = model if isinstance(model, bytes) else _read_model(model)
        try:
            processor = sentencepiece.SentencePieceProcessor()
            processor.LoadFromSerializedProto(content)  # the constructor would accept b""
            processor.id_to_piece(list(range(processor.vocab_size())))  # checks that they are UTF-8
        except UnicodeDecodeError as error:
            raise InputError(
                f"{where}The pieces of the SentencePiece model must be UTF-8 ({error})."
            ) from error
        except RuntimeError as error:
            raise InputError(f"{where}Not a SentencePiece model ({len(content)} bytes).") from error
        ids = (processor.pad_id(), processor.unk_id(), processor.bos_id(), processor.eos_id())
        expected = (PAD_ID, UNKNOWN_ID, BEGIN_ID, END_ID)
        if ids != expected:
            raise InputError(
                f"{where}The SentencePiece model must have (pad, unknown, begin, end) ids "
                f"{expected}. Received: {ids}. Train it with --pad_id={PAD_ID} "
                f"--unk_id={UNKNOWN_ID} --bos_id={BEGIN_ID} --eos_id={END_ID}"
            )
        self.model = content
        self._processor = processor
        outside = processor.piece_to_id(OUTSIDE)  # the unknown id if there is no such piece
        self.is_renumbered = outside != UNKNOWN_ID
        self.vocab_size = outside if self.is_renumbered else processor.vocab_size()
        self.word_separators = _word_separators(processor) if self.is_renumbered else None
        self.is_byte_level = self.is_renumbered and _has(processor, BYTE_LEVEL)
        begins = self.is_byte_level and _has(processor, BEGINS_TWICE)
        self.begin_ids = [processor.piece_to_id(_BEGIN)] * 2 if begins else []

    def end_ids(self, end_pieces: Sequence[str] = ()) -> list[int]:
        """Returns all ids that end an output: the end id, and the ids of `end_pieces`.

        Args:
            end_pieces: pieces that end an output as the end id does.

        Raises:
            InputError: `end_pieces` is no list of strings, or a piece is not in the vocabulary.
        """
        pieces = list_of_texts(end_pieces, "end_pieces")
        for piece in map(str, pieces):
            if piece not in self.pieces:
                raise InputError(
                    f"`end_pieces` must be pieces of the vocabulary. Received: {piece!r}"
                    + nearest(piece, self.pieces)
                )
        return [END_ID, *(self.pieces.index(piece) for piece in end_pieces)]

    @functools.cached_property
    def pieces(self) -> list[str]:
        """The piece of every id."""
        return self._processor.id_to_piece(list(range(self.vocab_size)))

    @functools.cached_property
    def texts(self) -> list[str]:
        """The text of every id's piece, in which `WORD_BEGIN` stands for a space.

        Of byte-level BPE, bytes that are no whole character are U+FFFD.
        """
        return list(map(text_of, self.pieces)) if self.is_byte_level else self.pieces

    @functools.cached_property
    def begins_word(self) -> list[bool]:
        """Whether each id's piece begins a word: a space in the text comes before it."""
        if self.word_separators:  # each piece is a word
            return [True] * self.vocab_size
        return [piece.startswith(WORD_BEGIN) for piece in self.pieces]

    @functools.cached_property
    def scores(self) -> list[float]:
        """SentencePiece's score of every id: log-probability, or minus the index of the merge."""
        return self._processor.get_score(list(range(self.vocab_size)))

    def encode(self, sentences: list[str]) -> list[list[int]]:
        """Returns the ids of each sentence without special ids, as `Tokenizer.tokenize` does."""
        if self.is_byte_level:
            return [self._encode_parts(sentence) for sentence in sentences]
        if not self.is_renumbered:
            return self._processor.encode(sentences, num_threads=1)
        if self.word_separators:
            return [self._encode_words(sentence) for sentence in sentences]
        encoded = self._processor.encode(sentences, out_type=str, num_threads=1)
        return [[self._ids.get(piece, UNKNOWN_ID) for piece in pieces] for pieces in encoded]

    def _encode_parts(self, sentence: str) -> list[int]:
        parts = self._processor.encode(split_text(sentence), num_threads=1)
        ids = [token_id for part in parts for token_id in part]
        return self.begin_ids + ids if ids else ids

    def _encode_words(self, sentence: str) -> list[int]:
        words = re.split(f"[{self.word_separators}]", sentence)
        return [self._ids.get(WORD_BEGIN + word, UNKNOWN_ID) for word in words if word]

    @functools.cached_property
    def _ids(self) -> dict[str, int]:
        return {piece: token_id for token_id, piece in enumerate(self.pieces)}

    @functools.cached_property
    def languages(self) -> list[str]:
        """The languages whose tags are in the vocabulary, see `language_tag`."""
        return languages_of(self.pieces)

    @property
    def tag_ids(self) -> list[int]:
        """The ids of the language tags."""
        return [token_id for token_id, piece in enumerate(self.pieces) if is_tag(piece)]


def _read_model(path):
    if not isinstance(path, str | os.PathLike):
        raise InputError(
            "`model` must be a SentencePiece model as bytes, or the path of its file. "
            f"Received: {shown(path)}"
        )
    path = as_path(path, "model", "a SentencePiece model")
    if not path.is_file():
        kind = "a folder" if path.is_dir() else "no such file"
        raise InputError(
            f"{path}: {kind}; expected the file of a SentencePiece model, such as the source.spm "
            "of a model directory"
        )
    if (size := path.stat().st_size) > MAX_MODEL_BYTES:
        raise InputError(f"{path}: {size:,} bytes, expected at most {MAX_MODEL_BYTES:,}")
    return path.read_bytes()


def _word_separators(processor: sentencepiece.SentencePieceProcessor) -> str | None:
    for name, characters in WORD_SEPARATORS.items():
        if _has(processor, words_mark(name)):
            return characters
    return None


def _has(processor: sentencepiece.SentencePieceProcessor, piece: str) -> bool:
    return processor.piece_to_id(piece) != UNKNOWN_ID
