"""Models of CTranslate2: a folder with `model.bin`, vocabularies and SentencePiece models."""

import pathlib
from collections.abc import Iterator
from typing import Any

import numpy as np

from tf_transformer.config import TransformerConfig
from tf_transformer.config_checks import TiedEmbeddings
from tf_transformer.errors import InputError
from tf_transformer.formats.ctranslate2.package import (
    SUFFIX,
    sentencepiece_folder,
    unpack,
    weights_path,
)
from tf_transformer.formats.ctranslate2.settings import (
    is_scaled,
    model_settings,
    read_tokens,
    scalars_of,
)
from tf_transformer.formats.ctranslate2.vocabularies import read_tokenizers, read_vocabularies
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
from tf_transformer.storage.weight_shapes import weight_shapes

Weight = tuple[str, np.ndarray]

_SPECIFICATION = "TransformerSpec"
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
        vocabularies = read_vocabularies(folder, tokens)
        source, target = vocabularies.source, vocabularies.target
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
            language_tags=vocabularies.language_tags,
            # Marian's sources always end; of models with codes of languages, the tokenizer adds it.
            source_end=tokens.add_source_eos or is_zero or vocabularies.has_codes,
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
        tokenizers = read_tokenizers(sentencepiece_folder(folder), vocabularies)
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
