"""Marian's SentencePiece models, whose ids are the neural model's: 0 is the end, 1 is unknown."""

from tf_transformer.errors import InputError
from tf_transformer.formats.sentencepiece_ids import add_special, check_pieces, load_processor
from tf_transformer.text.sentencepiece_model_pb2 import ModelProto
from tf_transformer.text.special_ids import END_ID, NUM_SPECIAL, UNKNOWN_ID


def read_pieces(model: bytes) -> tuple[list[str], int, int]:
    """Returns the pieces of a SentencePiece model, and the ids of unknown pieces and of the end.

    Raises:
        InputError: `model` is not a SentencePiece model, or has no piece for the end.
    """
    processor = load_processor(model)
    pieces = processor.id_to_piece(list(range(processor.vocab_size())))
    unknown, end = processor.unk_id(), processor.eos_id()
    if end < 0:
        raise InputError("expected a SentencePiece model with a piece for the end of a sentence")
    return pieces, unknown, end


def with_special_ids(model: bytes) -> bytes:
    """Returns a SentencePiece model with this project's special ids before all other pieces.

    Args:
        model: a serialized model for which `read_pieces` passes.

    Raises:
        InputError: a piece is empty or occurs twice.
    """
    _, *special = read_pieces(model)
    result = _parse(model)
    others = [piece for index, piece in enumerate(result.pieces) if index not in special]
    names = [piece.piece for piece in others]
    check_pieces(names)
    del result.pieces[:]
    add_special(result, set(names))
    result.pieces.extend(others)
    return result.SerializeToString()


def without_pad_and_begin(model: bytes) -> bytes:
    """Returns a SentencePiece model with Marian's ids: the inverse of `with_special_ids`.

    Args:
        model: a serialized model with this project's special ids.
    """
    result = _parse(model)
    pieces = list(result.pieces)
    del result.pieces[:]
    result.pieces.extend([pieces[END_ID], pieces[UNKNOWN_ID], *pieces[NUM_SPECIAL:]])
    spec = result.trainer_spec
    spec.eos_id, spec.unk_id, spec.bos_id = 0, 1, -1
    spec.ClearField("pad_id")  # -1 by default
    return result.SerializeToString()


def _parse(model: bytes) -> ModelProto:
    """Returns the message of a serialized model."""
    return ModelProto.FromString(model)
