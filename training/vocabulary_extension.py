"""Adding pieces to the vocabulary of a trained model: terms, characters, language tags.

A new piece is a user-defined symbol of SentencePiece: where a text contains it, it is one token,
and all other text is split as before. The ids of the old pieces do not change. The rows of a new
piece, in embeddings and logits, are the mean of the rows of the pieces that its text was split
into; those of a new tag, the mean of the tags that the vocabulary has.
"""

import dataclasses
import pathlib
import unicodedata
from collections.abc import Iterator, Sequence

import numpy as np

from tf_transformer.config import TransformerConfig
from tf_transformer.errors import InputError
from tf_transformer.printable import shown
from tf_transformer.storage.model_dir import WEIGHTS_NAME, read_config, weights_digest
from tf_transformer.storage.own_files import make_own_folder
from tf_transformer.storage.regular_files import read_regular
from tf_transformer.storage.weight_shapes import weight_shapes
from tf_transformer.storage.weights_file import check_finite, read_arrays, write_arrays
from tf_transformer.text.language_tags import TAG_BEGIN, is_tag
from tf_transformer.text.reading import decode_text
from tf_transformer.text.sentencepiece_model_pb2 import ModelProto
from tf_transformer.text.special_ids import NUM_SPECIAL
from tf_transformer.text.vocabulary import WORD_BEGIN, Vocabulary
from training.config import TrainingConfig
from training.prepared.existing_vocabulary import read_vocabulary
from training.prepared.prepared_folder import SentencePieceModels

_MAX_BYTES, _MAX_PIECES, _MAX_LENGTH = 2**20, 10_000, 100
# Weights with a row per piece: the side of the vocabulary, and the axis.
_ROWS = {
    "source_embedding/embeddings": ("source", 0),
    "target_embedding/embeddings": ("target", 0),
    "logits_projection/kernel": ("target", 1),
    "logits_projection/bias": ("target", 0),
    "logits_bias": ("target", 0),
}


def read_pieces(path: pathlib.Path) -> list[str]:
    """Reads the pieces to add, one per line.

    A space, inside or before a word, becomes SentencePiece's symbol for it; so does the space
    before a tag such as `>>fra<<`, as in vocabularies that `train` makes.

    Args:
        path: a UTF-8 file; blank lines are ignored.

    Raises:
        InputError: the file is missing, too large or not UTF-8, or a line is no piece; the message
            contains its number.
    """
    try:
        text = decode_text(read_regular(path, _MAX_BYTES), path)
    except FileNotFoundError as error:
        raise InputError(f"{path}: no such file") from error
    pieces: list[str] = []
    for number, line in enumerate(text.split("\n"), 1):
        line = line.removesuffix("\r")
        if not line.strip():
            continue
        piece = line.replace(" ", WORD_BEGIN)
        if piece.startswith(TAG_BEGIN) and is_tag(piece):
            piece = WORD_BEGIN + piece
        _check_piece(piece, pieces, f"{path}:{number}")
        pieces.append(piece)
    if not 1 <= len(pieces) <= _MAX_PIECES:
        raise InputError(f"{path}: expected 1 to {_MAX_PIECES:,} pieces, got {len(pieces):,}")
    return pieces


def _check_piece(piece: str, former: Sequence[str], where: str) -> None:
    if len(piece) > _MAX_LENGTH:
        raise InputError(f"{where}: expected at most {_MAX_LENGTH} characters, got {len(piece)}")
    if any(unicodedata.category(character) in ("Cc", "Cs", "Cn") for character in piece):
        raise InputError(f"{where}: {shown(piece)} contains a character that is no text")
    if not piece.strip(WORD_BEGIN):
        raise InputError(f"{where}: {shown(piece)} is only space")
    if piece in former:
        raise InputError(f"{where}: {shown(piece)} is given twice")


def check_extension(
    config: TrainingConfig, init_from: pathlib.Path | None, is_prepared: bool
) -> None:
    """Checks that pieces can be added in a run.

    Args:
        config: settings of the run.
        init_from: the model that the run starts from.
        is_prepared: whether the corpus is a prepared folder.

    Raises:
        InputError: they cannot.
    """
    if init_from is None:
        raise InputError("--add-pieces extends the vocabulary of a model; give it as --init-from")
    if is_prepared:
        raise InputError(
            "--add-pieces: a prepared folder is text in the old vocabulary; give --source and "
            "--target"
        )
    if config.lora.rank is not None:
        raise InputError(
            "--add-pieces: LoRA (--lora) trains no embeddings, so that new pieces would learn "
            "nothing; add them in a run without --lora, and start from its model"
        )


@dataclasses.dataclass(frozen=True)
class Extension:
    """A vocabulary with new pieces.

    Args:
        models: the SentencePiece models of source and target.
        parts: for each side, "source" and "target", and each of its new pieces, the old ids whose
            rows it starts from.
    """

    models: SentencePieceModels
    parts: dict[str, list[list[int]]]


def extend_vocabulary(model_dir: pathlib.Path, pieces: Sequence[str]) -> Extension:
    """Adds pieces to the vocabulary of a model.

    A joint vocabulary stays joint. Of two vocabularies, each gets the pieces that it lacks; tags
    are pieces of the source.

    Args:
        model_dir: the model directory.
        pieces: the result of `read_pieces`.

    Raises:
        InputError: the vocabulary cannot be extended, or a piece is in it already or never found in
            a text.
    """
    settings, (source, target) = read_vocabulary(model_dir)
    sides = {"target": Vocabulary(target)}
    if source is not None:
        sides = {"source": Vocabulary(source)} | sides
    for vocabulary in sides.values():
        if vocabulary.is_renumbered:
            raise InputError(
                f"{model_dir}: pieces cannot be added to this imported vocabulary, whose ids are "
                "not those of its SentencePiece model; start from a model that `train` has made"
            )
    wanted = {
        side: [p for p in pieces if not is_tag(p) or side == "source" or settings.joint]
        for side in sides
    }
    if source is None and any(map(is_tag, pieces)):
        raise InputError(f"{model_dir}: a language model has no source, so that it needs no tags")
    new = {
        side: [piece for piece in wanted[side] if piece not in set(vocabulary.pieces)]
        for side, vocabulary in sides.items()
    }
    for piece in pieces:
        if not any(piece in of_side for of_side in new.values()):
            raise InputError(f"{model_dir}: the vocabulary has the piece {shown(piece)} already")
    models = {side: _extended(sides[side], new[side]) for side in sides}
    parts = {side: [_parts(sides[side], piece) for piece in new[side]] for side in sides}
    return Extension((models.get("source"), models["target"]), parts)


def _extended(vocabulary: Vocabulary, pieces: Sequence[str]) -> bytes:
    """Returns the SentencePiece model with new pieces, after a check that texts contain them."""
    if not pieces:
        return vocabulary.model
    proto = ModelProto.FromString(vocabulary.model)
    for piece in pieces:
        proto.pieces.add(piece=piece, score=0.0, type=ModelProto.SentencePiece.USER_DEFINED)
    proto.trainer_spec.user_defined_symbols.extend(pieces)
    proto.trainer_spec.vocab_size = len(proto.pieces)
    model = proto.SerializeToString()
    extended = Vocabulary(model)
    for index, piece in enumerate(pieces):
        texts = [_text(piece), f"a{_text(piece)} a"]
        if not any(vocabulary.vocab_size + index in ids for ids in extended.encode(texts)):
            raise InputError(
                f"SentencePiece finds the piece {shown(piece)} in none of the texts "
                f"{shown(texts)}; expected one that is not hidden by a longer one"
            )
    return model


def _text(piece: str) -> str:
    return piece.replace(WORD_BEGIN, " ")


def _parts(vocabulary: Vocabulary, piece: str) -> list[int]:
    """Returns the old ids whose rows a new piece starts from."""
    ids = vocabulary.tag_ids if is_tag(piece) else []
    if not ids:
        (found,) = vocabulary.encode([_text(piece)])
        ids = [
            token_id
            for token_id in found
            if token_id >= NUM_SPECIAL and vocabulary.pieces[token_id] != WORD_BEGIN
        ]
    return ids or list(range(NUM_SPECIAL, vocabulary.vocab_size))


def copy_extended_weights(
    init_from: pathlib.Path, model_dir: pathlib.Path, extension: Extension
) -> None:
    """Writes the weights of a model directory into another one, with rows for new pieces.

    Args:
        init_from: the model directory to read.
        model_dir: the directory to write, which is made if needed.
        extension: the result of `extend_vocabulary` for `init_from`.

    Raises:
        InputError: `init_from` holds no valid model, or its weights changed meanwhile.
    """
    config = read_config(init_from)
    digest = weights_digest(init_from, config)
    make_own_folder(model_dir)
    write_arrays(
        model_dir / WEIGHTS_NAME,
        weight_shapes(_extended_config(config, extension)),
        _with_new_rows(init_from / WEIGHTS_NAME, config, extension),
    )
    if weights_digest(init_from, config) != digest:
        raise InputError(f"{init_from}: the weights changed while they were copied; try again")


def _extended_config(config: TransformerConfig, extension: Extension) -> TransformerConfig:
    sizes = {
        f"{side}_vocab_size": getattr(config, f"{side}_vocab_size") + len(parts)
        for side, parts in extension.parts.items()
    }
    return dataclasses.replace(config, **sizes)


def _with_new_rows(
    path: pathlib.Path, config: TransformerConfig, extension: Extension
) -> Iterator[tuple[str, np.ndarray]]:
    for name, array in read_arrays(path, weight_shapes(config)):
        check_finite(name, array, path)
        side, axis = _ROWS.get(name, ("", 0))
        if parts := extension.parts.get(side):
            rows = [array.take(ids, axis).mean(axis, keepdims=True) for ids in parts]
            array = np.concatenate([array, *rows], axis)
        yield name, array
