"""What a SentencePiece model says of its pieces. Importing this needs no TensorFlow."""

import functools
from collections.abc import Sequence

import sentencepiece

from tf_transformer.config import nearest
from tf_transformer.errors import InputError
from tf_transformer.text.language_tags import language_tag, languages_of
from tf_transformer.text.special_ids import BEGIN_ID, END_ID, PAD_ID, UNKNOWN_ID
from tf_transformer.text.texts import list_of_texts

# A vocabulary of 256,000 pieces, the largest in use, takes some 5 MB.
MAX_MODEL_BYTES = 2**28


class Vocabulary:
    """The pieces of a SentencePiece model and their ids.

    The special ids are fixed: 0 pads, 1 stands for the unknown, 2 begins and 3 ends a sentence.

    Args:
        model: a serialised SentencePiece model.

    Raises:
        ValueError: `model` is not a SentencePiece model, or has other special ids.
    """

    def __init__(self, model: bytes):
        try:
            processor = sentencepiece.SentencePieceProcessor()
            processor.LoadFromSerializedProto(model)  # the constructor takes b"" for no model
            processor.id_to_piece(list(range(processor.vocab_size())))  # decodes them
        except UnicodeDecodeError as error:
            raise InputError(
                f"A SentencePiece model with pieces that are no UTF-8 ({error})."
            ) from error
        except RuntimeError as error:
            raise InputError(f"Not a SentencePiece model ({len(model)} bytes).") from error
        ids = (processor.pad_id(), processor.unk_id(), processor.bos_id(), processor.eos_id())
        expected = (PAD_ID, UNKNOWN_ID, BEGIN_ID, END_ID)
        if ids != expected:
            raise InputError(
                "The SentencePiece model must have (pad, unknown, begin, end) ids "
                f"{expected}. Received: {ids}. Train it with --pad_id={PAD_ID} "
                f"--unk_id={UNKNOWN_ID} --bos_id={BEGIN_ID} --eos_id={END_ID}"
            )
        self.model = model
        self.vocab_size = processor.vocab_size()

    def end_ids(self, end_pieces: Sequence[str] = ()) -> list[int]:
        """The end id, and the ids of pieces that end an output like it.

        Raises:
            ValueError: no list of pieces, or a piece is not in the vocabulary.
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
        """The piece of every id, for people to read."""
        processor = sentencepiece.SentencePieceProcessor(model_proto=self.model)
        return [processor.id_to_piece(number) for number in range(self.vocab_size)]

    @functools.cached_property
    def scores(self) -> list[float]:
        """SentencePiece's score of every id: log-probability, or less the later it was merged."""
        processor = sentencepiece.SentencePieceProcessor(model_proto=self.model)
        return [processor.get_score(number) for number in range(self.vocab_size)]

    @functools.cached_property
    def languages(self) -> list[str]:
        """Languages that the vocabulary has a tag for, see `language_tag`."""
        return languages_of(self.pieces)

    @property
    def tag_ids(self) -> list[int]:
        """The ids of the languages' tags."""
        return [self.pieces.index(language_tag(language)) for language in self.languages]
