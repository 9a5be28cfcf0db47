"""SentencePiece models whose ids are those of a neural model.

The ids of a translation model are often not those of its SentencePiece model: a vocabulary file
maps pieces to ids. Here the pieces of the SentencePiece model are put in the order of the
vocabulary, so that one file holds both, and tokenization and its inverse remain one operation of a
graph.
"""

import pathlib
from collections.abc import Container, Sequence

import sentencepiece

from tf_transformer.errors import InputError
from tf_transformer.formats.added_words import AddedWord, add_words
from tf_transformer.formats.foreign_content import describe
from tf_transformer.printable import shown
from tf_transformer.storage.regular_files import read_regular
from tf_transformer.text.language_tags import TAG_BEGIN, is_tag
from tf_transformer.text.sentencepiece_model_pb2 import ModelProto
from tf_transformer.text.special_ids import BEGIN_ID, END_ID, PAD_ID, UNKNOWN_ID
from tf_transformer.text.vocabulary import MAX_MODEL_BYTES, OUTSIDE, WORD_BEGIN

# The names of the special pieces, by id.
_SPECIAL = {PAD_ID: "<pad>", UNKNOWN_ID: "<unk>", BEGIN_ID: "<s>", END_ID: "</s>"}
# Of the pieces of a SentencePiece model, so many must be in the vocabulary. A joint model can have
# many that one language lacks; the models of other vocabularies have few of the same.
_MIN_SHARE = 0.1
# If fewer than these are, the user is told.
_USUAL_SHARE = 0.5


def read_with_ids(
    path: pathlib.Path, pieces: Sequence[str], words: Sequence[AddedWord] = ()
) -> tuple[bytes, tuple[str, ...]]:
    """Reads a SentencePiece model and gives it the ids of a vocabulary that was made with it.

    Args:
        path: the file of the SentencePiece model.
        pieces: as for `with_ids`.
        words: as for `with_ids`.

    Returns:
        The result of `with_ids`, and notes for `ImportedModel`: one if the model may be that of
        another vocabulary, such as the other language's.

    Raises:
        InputError: as `with_ids`, or few of the model's pieces are in the vocabulary.
    """
    model, known = read_regular(path, MAX_MODEL_BYTES), set(pieces)
    try:
        own = pieces_of(model)
        result = with_ids(model, pieces, words)
    except InputError as error:
        raise InputError(f"{path}: {error}") from error
    share = sum(piece in known for piece in own) / len(own)
    if share < _MIN_SHARE:
        raise InputError(
            f"{path}: most of its pieces are not in the vocabulary, which was made with another "
            "model"
        )
    if share < _USUAL_SHARE:
        percent = f"only {100 * share:.0f} % of the pieces of {path.name} are in the vocabulary"
        return result, (f"{percent}; is it the right file, and that of the right language?",)
    return result, ()


def with_ids(model: bytes, pieces: Sequence[str], words: Sequence[AddedWord] = ()) -> bytes:
    """Returns a SentencePiece model that segments as `model` does, with the ids of a vocabulary.

    Ids 0 to 3 are this project's special ids. Language tags such as `>>fra<<` become pieces that
    are never split. Pieces that `model` lacks, such as those of the other language of a joint
    vocabulary, take no part in segmentation; but as in Marian, a sequence of unknown characters
    that is such a piece gets its id. (Deviation, in BPE models: each of these characters gets its
    own id.) Pieces of `model` that the vocabulary lacks still take part in segmentation; they
    follow after the piece `OUTSIDE`, and a `Tokenizer` replaces them by the unknown id.

    Args:
        model: a serialized SentencePiece model.
        pieces: the vocabulary without special pieces; the first one gets id 4.
        words: words that the text is split at before SentencePiece; their pieces are in `pieces`.

    Returns:
        The serialized model.

    Raises:
        InputError: `model` is not a SentencePiece model, a piece is empty or occurs twice, or words
            cannot be added to it.
    """
    from google.protobuf.message import DecodeError

    Piece = ModelProto.SentencePiece
    try:
        original = ModelProto.FromString(model)
    except DecodeError as error:
        raise _not_a_model(model) from error
    if not original.pieces:
        raise _not_a_model(model)
    own = {piece.piece: piece for piece in original.pieces}
    check_pieces(pieces)
    tag_prefix = WORD_BEGIN if original.normalizer_spec.add_dummy_prefix else ""

    result = ModelProto()
    result.CopyFrom(original)
    del result.pieces[:]
    special = (Piece.CONTROL, Piece.UNKNOWN)
    ordinary = {name for name, piece in own.items() if piece.type not in special}
    add_special(result, ordinary.union(pieces))
    # In a BPE model, unused pieces take part in merges, but come last and are split again.
    lowest = min((piece.score for piece in original.pieces), default=0.0) - 1.0
    is_missing = False
    of_words = {word.piece for word in words}
    tags = []
    for name in pieces:
        if name.startswith(TAG_BEGIN) and is_tag(name):
            result.pieces.add(piece=tag_prefix + name, score=0.0, type=Piece.USER_DEFINED)
            tags.append(name)
        elif name in of_words:
            result.pieces.add(piece=name, score=0.0, type=Piece.USER_DEFINED)
        elif name in own and own[name].type != Piece.UNKNOWN:
            result.pieces.add().CopyFrom(own[name])
            is_missing |= own[name].type == Piece.UNUSED
        else:
            is_missing = True
            result.pieces.add(piece=name, score=lowest, type=Piece.UNUSED)
    names_outside = ordinary - {piece.piece for piece in result.pieces}
    outside = [piece for name, piece in own.items() if name in names_outside]
    if outside or is_missing:
        result.pieces.add(piece=OUTSIDE, score=0.0, type=Piece.CONTROL)
        result.pieces.extend(outside)
    add_words(result, words, tags)
    return result.SerializeToString()


def pieces_of(model: bytes) -> list[str]:
    """Returns the pieces of any SentencePiece model, whatever its special ids.

    Raises:
        InputError: `model` is not a SentencePiece model.
    """
    processor = load_processor(model)
    return processor.id_to_piece(list(range(processor.vocab_size())))


def load_processor(model: bytes) -> sentencepiece.SentencePieceProcessor:
    """Loads any SentencePiece model, whatever its special ids.

    Raises:
        InputError: `model` is not a SentencePiece model, or its pieces are not UTF-8.
    """
    try:
        processor = sentencepiece.SentencePieceProcessor()
        processor.LoadFromSerializedProto(model)
        processor.id_to_piece(list(range(processor.vocab_size())))
        return processor
    except (RuntimeError, UnicodeDecodeError) as error:
        raise _not_a_model(model) from error


def _not_a_model(content: bytes) -> InputError:
    found = describe(content) or f"{len(content)} bytes"
    return InputError(f"Not a SentencePiece model ({found}).")


def check_pieces(pieces: Sequence[str]) -> None:
    """Checks that the pieces of a vocabulary are different and can be stored.

    Raises:
        InputError: a piece is empty, occurs twice, or is `OUTSIDE`.
    """
    seen: set[str] = set()
    for name in pieces:
        if not name or name == OUTSIDE or name in seen:
            raise InputError(
                "the pieces of a vocabulary must be different and not empty. "
                f"Received: {shown(name)}"
            )
        seen.add(name)


def add_special(result: ModelProto, taken: Container[str]) -> None:
    """Adds the special pieces; names that the vocabulary uses otherwise are put in brackets.

    Args:
        result: the model to add to.
        taken: the names that the vocabulary uses otherwise.
    """
    fields = {PAD_ID: "pad", UNKNOWN_ID: "unk", BEGIN_ID: "bos", END_ID: "eos"}
    for token_id, name in _SPECIAL.items():
        while name in taken:
            name = f"<{name}>"
        kind = "UNKNOWN" if token_id == UNKNOWN_ID else "CONTROL"
        result.pieces.add(piece=name, score=0.0, type=kind)
        for field, value in (("id", token_id), ("piece", name)):
            field = f"{fields[token_id]}_{field}"
            if getattr(result.trainer_spec, field) != value:  # a default is not stored
                setattr(result.trainer_spec, field, value)
