"""The SentencePiece model of a `tokenizer.json`, which Transformers 5 writes without it for NLLB.

The file has the pieces, the merges of BPE in their order, and the table of the normalization.
SentencePiece merges the pair whose result has the best score; the score is therefore the negative
rank of the first merge that results in a piece.
"""

import base64
import binascii
import pathlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tf_transformer.errors import InputError
from tf_transformer.printable import shown
from tf_transformer.storage.json_files import parse_json
from tf_transformer.storage.regular_files import read_regular
from tf_transformer.text.sentencepiece_model_pb2 import ModelProto

# NLLB's file has 33 MB.
MAX_BYTES = 2**28
# Settings of the tokenizer as Transformers 5 writes them for NLLB; each may be missing.
_REQUIRED: dict[str, dict[str, Any]] = {
    "model": {
        "type": "BPE",
        "dropout": None,
        "continuing_subword_prefix": None,
        "end_of_word_suffix": None,
        "byte_fallback": False,
        "ignore_merges": False,
    },
    "pre_tokenizer": {"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": "always"},
}
_STRIP = {"type": "Strip", "strip_left": False, "strip_right": True}
# Steps that do what SentencePiece does with spaces; Transformers 4 writes the second and third.
_SPACES = [
    {"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": " "},
    {"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": "\u2581"},
    _STRIP,
]


def sentencepiece_model(path: pathlib.Path, special: Sequence[str]) -> bytes:
    """Returns the serialized SentencePiece model of a `tokenizer.json`.

    Args:
        path: the file.
        special: pieces that take no part in segmentation.

    Raises:
        InputError: the file is damaged, or its tokenizer is not NLLB's.
    """
    content = parse_json(read_regular(path, MAX_BYTES), path)
    for section, settings in _REQUIRED.items():
        _check(content.get(section), settings, path, section)
    ranks = _ranks(content["model"].get("merges"), path)
    names = content["model"].get("vocab")
    if not isinstance(names, Mapping):
        raise InputError(f"{path}: expected the ids of pieces as model.vocab")
    result = ModelProto()
    result.trainer_spec.model_type = result.trainer_spec.BPE
    result.normalizer_spec.add_dummy_prefix = True
    result.normalizer_spec.escape_whitespaces = True
    result.normalizer_spec.remove_extra_whitespaces = False
    for step in _normalizers(content.get("normalizer"), path):
        if step in _SPACES:
            result.normalizer_spec.remove_extra_whitespaces = True
        else:
            result.normalizer_spec.precompiled_charsmap = _table(step, path)
    for name, kind in (("<unk>", "UNKNOWN"), ("<s>", "CONTROL"), ("</s>", "CONTROL")):
        result.pieces.add(piece=name, score=0.0, type=kind)
    for name in names:
        if name and name not in special:
            rank = ranks.get(name, len(ranks) + 1)
            result.pieces.add(piece=name, score=-float(rank), type="NORMAL")
    return result.SerializeToString()


def strips_parts(path: pathlib.Path) -> bool:
    """Returns whether spaces at the end of each part of a text are removed.

    Parts are what is between added tokens that are found before the normalization.

    Args:
        path: a `tokenizer.json`.

    Raises:
        InputError: no space is put before each part, as NLLB's tokenizer does.
    """
    content = parse_json(read_regular(path, MAX_BYTES), path)
    _check(content.get("pre_tokenizer"), _REQUIRED["pre_tokenizer"], path, "pre_tokenizer")
    return _STRIP in _steps(content.get("normalizer"))


def _check(found: Any, required: Mapping[str, Any], path: pathlib.Path, section: str) -> None:
    if not isinstance(found, Mapping):
        raise InputError(f"{path}: expected an object {section!r}, got {shown(found)}")
    for name, value in required.items():
        if found.get(name, value) != value:
            raise InputError(
                f"{path}: expected {section}.{name}={value!r}, as of NLLB. "
                f"Received: {shown(found[name])}"
            )


def _ranks(merges: Any, path: pathlib.Path) -> dict[str, int]:
    """Returns the position of the first merge that results in each piece."""
    ranks: dict[str, int] = {}
    for rank, pair in enumerate(merges if isinstance(merges, list) else [None]):
        parts = pair.split(" ") if isinstance(pair, str) else pair  # older files join them
        match parts:
            case [str(first), str(second)]:
                ranks.setdefault(first + second, rank)
            case _:
                raise InputError(f"{path}: expected pairs as model.merges, got {shown(pair)}")
    return ranks


def _normalizers(found: Any, path: pathlib.Path) -> Iterator[dict[str, Any]]:
    """Yields the steps of the normalization, of which each kind may occur once."""
    kinds: list[Any] = []
    for step in _steps(found):
        kind = step.get("type") if isinstance(step, dict) else None
        if kind in kinds or not (step in _SPACES or kind == "Precompiled"):
            raise InputError(
                f"{path}: the normalizer {shown(step)} is not supported, only a table, one space "
                "for several, and none at the end, once each"
            )
        kinds.append(kind)
        yield step


def _steps(found: Any) -> list[Any]:
    is_sequence = isinstance(found, Mapping) and found.get("type") == "Sequence"
    steps = found.get("normalizers") if is_sequence else [found] if found else []
    return steps if isinstance(steps, list) else [steps]


def _table(step: Mapping[str, Any], path: pathlib.Path) -> bytes:
    try:
        return base64.b64decode(step.get("precompiled_charsmap", ""), validate=True)
    except (binascii.Error, TypeError, ValueError) as error:
        raise InputError(f"{path}: expected a table in base64 ({error})") from error
