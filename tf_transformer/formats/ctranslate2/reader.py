"""Models of CTranslate2: a folder with `model.bin`, vocabularies and SentencePiece models."""

import pathlib
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from tf_transformer.config import TransformerConfig
from tf_transformer.config_checks import TiedEmbeddings
from tf_transformer.errors import InputError
from tf_transformer.formats.checkpoints.sentencepiece_files import make_tokenizers
from tf_transformer.formats.ctranslate2.package import (
    SUFFIX,
    sentencepiece_folder,
    unpack,
    weights_path,
)
from tf_transformer.formats.ctranslate2.settings import (
    Tokens,
    is_scaled,
    model_settings,
    read_tokens,
    scalars_of,
)
from tf_transformer.formats.ctranslate2.weights import (
    LOGITS,
    NAMES,
    POSITIONS,
    SOURCE_EMBEDDING,
    TARGET_EMBEDDING,
    CTranslate2Weights,
)
from tf_transformer.formats.imported_model import ImportedModel
from tf_transformer.formats.naming import Edits, convert_weights
from tf_transformer.formats.position_tables import Layout, recognize_sinusoids
from tf_transformer.formats.tensors.ctranslate2_format import VERSIONS, read_ctranslate2
from tf_transformer.formats.tensors.stored_file import StoredFile, naming
from tf_transformer.formats.tensors.tensor_file import TensorFile
from tf_transformer.formats.vocabulary_rows import VocabularyRows, row_edits
from tf_transformer.printable import shown
from tf_transformer.storage.json_files import parse_json
from tf_transformer.storage.regular_files import read_regular
from tf_transformer.storage.weight_shapes import weight_shapes

Weight = tuple[str, np.ndarray]

_SPECIFICATION = "TransformerSpec"
_MAX_VOCABULARY_BYTES = 2**28
_PADS = ("<blank>", "<pad>")
# Its own sinusoids, of models that store none: src/layers/common.cc.
_COMPUTED = Layout("concatenated", first_position=1)
_LONGEST = 1024


class CTranslate2:
    """Models of CTranslate2, see `ModelFormat`."""

    name = "ctranslate2"

    def recognizes(self, path: pathlib.Path) -> bool:
        """Returns whether a folder has a `model.bin` of such a version, or a file is a package."""
        if path.suffix == SUFFIX:
            return path.is_file()
        try:
            with open(weights_path(path), "rb") as file:
                begin = file.read(6)
        except OSError:
            return False
        return len(begin) == 6 and int.from_bytes(begin[:4], "little") in VERSIONS

    def read(self, path: pathlib.Path) -> ImportedModel:
        """Reads a model.

        Args:
            path: the folder, or `model.bin` in it, or a package of Argos Translate.

        Raises:
            InputError: a file is missing or damaged, the files do not fit together, or a setting is
                not supported.
        """
        if path.suffix == SUFFIX:
            unpacked = unpack(path)
            imported = self.read(pathlib.Path(unpacked.name))
            return imported._replace(weights=_holding(unpacked, imported.weights))
        path = weights_path(path)
        folder = path.parent
        with naming(path):
            content = read_ctranslate2(StoredFile(path))
            file = TensorFile(path, content.tensors, [])
        if content.specification != _SPECIFICATION:
            raise InputError(
                f"{path}: {shown(content.specification)} is not supported, only {_SPECIFICATION}"
            )
        scalars = scalars_of(file)
        tokens = read_tokens(folder, content.version, scalars)
        settings = model_settings(file, scalars)
        source, target = _read_vocabularies(folder, tokens)
        weights = CTranslate2Weights(file, content.tensors)
        is_zero = bool(scalars.get("decoder/start_from_zero_embedding", 0))
        starts_with_end = tokens.decoder_start_token == tokens.eos_token
        scaled = is_scaled(scalars, "decoder", settings["d_model"])
        config = TransformerConfig(
            source_vocab_size=source.vocab_size,
            target_vocab_size=target.vocab_size,
            begin_embedding="zero" if is_zero else "end" if starts_with_end else "own",
            tied_embeddings=_tied(weights),
            scaled_embeddings=scaled,
            logits_bias=True,
            # Marian's sources always end; of a model of Transformers, its tokenizer adds the end.
            source_end=tokens.add_source_eos or is_zero,
            layer_norm_epsilon=tokens.epsilon,
            **_positions(weights, file),
            **settings,
        )
        for name, rows in ((SOURCE_EMBEDDING, source), (TARGET_EMBEDDING, target)):
            if name in weights and weights.rows(name) != rows.original_size:
                raise InputError(
                    f"{path}: {name} has {weights.rows(name):,} rows, the vocabulary "
                    f"{rows.original_size:,} entries"
                )
        tokenizers = make_tokenizers(
            sentencepiece_folder(folder), source, target, (None, None), "spaces"
        )
        edits = _edits(config, source, target)
        return ImportedModel(
            config,
            tokenizers.source,
            tokenizers.target,
            convert_weights(weight_shapes(config), NAMES, weights, edits),
            tokenizers.notes,
        )


def _holding(_folder: Any, weights: Iterator[Weight]) -> Iterator[Weight]:
    """Yields the weights, and keeps a temporary folder until then."""
    yield from weights


def _tied(weights: CTranslate2Weights) -> TiedEmbeddings:
    """Returns the setting of `TransformerConfig`, and removes the copies that it makes needless."""
    shares_inputs = weights.is_alias(SOURCE_EMBEDDING, TARGET_EMBEDDING)
    shares_logits = weights.is_alias(LOGITS, TARGET_EMBEDDING)
    if shares_inputs:
        weights.drop(SOURCE_EMBEDDING)
    if shares_logits:
        weights.drop(LOGITS)
        return "all" if shares_inputs else "target"
    return "inputs" if shares_inputs else "none"


def _positions(weights: CTranslate2Weights, file: TensorFile) -> dict:
    """Returns the settings of the positions; tables of sinusoids are removed."""
    stored = [name for name in POSITIONS if name in weights]
    if not stored:
        return dict(_COMPUTED._asdict(), max_length=_LONGEST)
    tables = [file[name] for name in stored]
    if len(stored) != len(POSITIONS) or any(table.ndim != 2 for table in tables):
        raise InputError(f"{file.path}: expected matrices {' and '.join(POSITIONS)}")
    length = min(len(table) for table in tables)
    layouts = {recognize_sinusoids(table) for table in tables}
    if len(layouts) == 1 and (layout := layouts.pop()) is not None:
        for name in stored:
            weights.drop(name)
        return dict(layout._asdict(), max_length=min(length, _LONGEST))
    return dict(positions="learned", max_length=length)


def _edits(config: TransformerConfig, source: VocabularyRows, target: VocabularyRows) -> Edits:
    edits = dict(row_edits(source, target))
    for side in ("source", "target"):
        edits[f"{side}_positions/vectors"] = lambda table: table[: config.max_length]
    return edits


def _read_vocabularies(
    folder: pathlib.Path, tokens: Tokens
) -> tuple[VocabularyRows, VocabularyRows]:
    rows = []
    for side in ("source", "target"):
        path = _find_vocabulary(folder, side)
        rows.append(_rows(_read_vocabulary(path), side, tokens, path))
    return rows[0], rows[1]


def _find_vocabulary(folder: pathlib.Path, side: str) -> pathlib.Path:
    names = [f"{kind}_vocabulary.{end}" for kind in ("shared", side) for end in ("json", "txt")]
    for name in names:
        if (folder / name).exists():
            return folder / name
    raise InputError(f"{folder}: no vocabulary; expected one of {', '.join(names)}")


def _read_vocabulary(path: pathlib.Path) -> list[str]:
    content = read_regular(path, _MAX_VOCABULARY_BYTES)
    if path.suffix == ".txt":
        try:
            return content.decode("utf-8").removesuffix("\n").split("\n")
        except UnicodeDecodeError as error:
            raise InputError(f"{path}: expected UTF-8") from error
    pieces = parse_json(b'{"pieces":' + content + b"}", path)["pieces"]
    if not isinstance(pieces, list) or not all(isinstance(piece, str) for piece in pieces):
        raise InputError(f"{path}: expected a list of strings")
    return pieces


def _rows(pieces: Sequence[str], side: str, tokens: Tokens, path: pathlib.Path) -> VocabularyRows:
    if len(set(pieces)) != len(pieces):
        raise InputError(f"{path}: a piece occurs twice")
    ids = {piece: index for index, piece in enumerate(pieces)}
    required = [tokens.unk_token]
    if side == "target":
        required += [tokens.eos_token, tokens.decoder_start_token or ""]
    for token in required:
        if token not in ids:
            raise InputError(f"{path}: expected the token {shown(token)}")
    begin = tokens.decoder_start_token if side == "target" else tokens.bos_token
    pad, unknown = next((ids[pad] for pad in _PADS if pad in ids), None), ids[tokens.unk_token]
    return VocabularyRows.of(
        list(pieces),
        pad=pad,
        unknown=unknown,
        begin=ids.get(begin or ""),
        # A source without an end; no computation reads its row.
        end=ids.get(tokens.eos_token, unknown if pad is None else pad),
    )
