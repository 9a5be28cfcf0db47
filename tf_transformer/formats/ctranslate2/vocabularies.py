"""The vocabularies of a model of CTranslate2, and the tokenizer beside them."""

import pathlib
from collections.abc import Sequence
from typing import NamedTuple

from tf_transformer.config_checks import LanguageTags
from tf_transformer.errors import InputError
from tf_transformer.formats.checkpoints.sentencepiece_files import Tokenizers, make_tokenizers
from tf_transformer.formats.ctranslate2.settings import Tokens
from tf_transformer.formats.hf.added_tokens import TOKENIZER_NAME
from tf_transformer.formats.hf.m2m100 import SMALL100_NAME
from tf_transformer.formats.hf.tokenizer import MASK, SPECIAL, usual_tag
from tf_transformer.formats.hf.tokenizer_json import sentencepiece_model
from tf_transformer.formats.sentencepiece_ids import with_ids
from tf_transformer.formats.vocabulary_rows import VocabularyRows
from tf_transformer.printable import shown
from tf_transformer.storage.json_files import parse_json
from tf_transformer.storage.regular_files import read_regular

_MAX_BYTES = 2**28
_PADS = ("<blank>", "<pad>")
_MODEL_SUFFIXES = (".model", ".spm")


class Vocabularies(NamedTuple):
    """The vocabularies of both sides.

    Attributes:
        source: that of the source.
        target: that of the target.
        has_codes: whether they have the codes of languages of M2M100 or NLLB, which are tags here,
            and whose tokenizer ends the source and names the languages.
        language_tags: the setting of `TransformerConfig`.
    """

    source: VocabularyRows
    target: VocabularyRows
    has_codes: bool
    language_tags: LanguageTags


def read_vocabularies(folder: pathlib.Path, tokens: Tokens) -> Vocabularies:
    """Reads `shared_vocabulary.json`, or the vocabularies of source and target.

    Args:
        folder: the folder of the model.
        tokens: its special tokens.

    Raises:
        InputError: one is missing or damaged, or lacks a special token.
    """
    paths = [_find_vocabulary(folder, side) for side in ("source", "target")]
    pieces = [_read_vocabulary(path) for path in paths]
    # CTranslate2 does not say whether there are languages: the tokens of M2M100's tokenizers do,
    # whose outputs start with the end.
    has_codes = (
        paths[0] == paths[1]
        and tokens.decoder_start_token == tokens.eos_token
        and any(usual_tag(piece) for piece in pieces[0])
    )
    if not has_codes:
        start = tokens.decoder_start_token or ""
        source = _rows(pieces[0], paths[0], tokens, tokens.bos_token)
        target = _rows(pieces[1], paths[1], tokens, start, (tokens.eos_token, start))
        return Vocabularies(source, target, False, "source")
    # The begin id of both sides, which the original does not use, gets the row of `<s>`.
    tagged = [usual_tag(piece) or piece for piece in pieces[0]]
    rows = _rows(tagged, paths[0], tokens, tokens.bos_token, (tokens.eos_token, tokens.bos_token))
    is_small = (folder / SMALL100_NAME).exists()
    return Vocabularies(rows, rows, True, "source" if is_small else "source_and_target")


def read_tokenizers(folder: pathlib.Path, vocabularies: Vocabularies) -> Tokenizers:
    """Reads the SentencePiece models of a folder, or `tokenizer.json` of a model with codes.

    Args:
        folder: where they are.
        vocabularies: the vocabularies.

    Raises:
        InputError: see `make_tokenizers`; or a model with codes of languages has none of them.
    """
    source, target = vocabularies.source, vocabularies.target
    has_model = any(path.suffix in _MODEL_SUFFIXES for path in folder.iterdir())
    if has_model or not vocabularies.has_codes:
        return make_tokenizers(folder, source, target, (None, None), "spaces")
    path = folder / TOKENIZER_NAME
    if not path.exists():
        raise InputError(
            f"{folder}: no tokenizer of this multilingual model; expected sentencepiece.bpe.model "
            "or tokenizer.json, which CTranslate2's converter copies with --copy_files"
        )
    special = {*SPECIAL, MASK, *(piece for piece in source.pieces if piece.startswith(">>"))}
    model = with_ids(sentencepiece_model(path, special), source.pieces)
    return Tokenizers(model, model, ())


def _find_vocabulary(folder: pathlib.Path, side: str) -> pathlib.Path:
    names = [f"{kind}_vocabulary.{end}" for kind in ("shared", side) for end in ("json", "txt")]
    for name in names:
        if (folder / name).exists():
            return folder / name
    raise InputError(f"{folder}: no vocabulary; expected one of {', '.join(names)}")


def _read_vocabulary(path: pathlib.Path) -> list[str]:
    content = read_regular(path, _MAX_BYTES)
    if path.suffix == ".txt":
        try:
            return content.decode("utf-8").removesuffix("\n").split("\n")
        except UnicodeDecodeError as error:
            raise InputError(f"{path}: expected UTF-8") from error
    pieces = parse_json(b'{"pieces":' + content + b"}", path)["pieces"]
    if not isinstance(pieces, list) or not all(isinstance(piece, str) for piece in pieces):
        raise InputError(f"{path}: expected a list of strings")
    return pieces


def _rows(
    pieces: Sequence[str],
    path: pathlib.Path,
    tokens: Tokens,
    begin: str,
    required: Sequence[str] = (),
) -> VocabularyRows:
    if len(set(pieces)) != len(pieces):
        raise InputError(f"{path}: a piece occurs twice")
    ids = {piece: index for index, piece in enumerate(pieces)}
    for token in (tokens.unk_token, *required):
        if token not in ids:
            raise InputError(f"{path}: expected the token {shown(token)}")
    pad, unknown = next((ids[pad] for pad in _PADS if pad in ids), None), ids[tokens.unk_token]
    return VocabularyRows.of(
        list(pieces),
        pad=pad,
        unknown=unknown,
        begin=ids.get(begin),
        # A source without an end; no computation reads its row.
        end=ids.get(tokens.eos_token, unknown if pad is None else pad),
    )
