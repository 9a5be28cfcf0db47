"""The SentencePiece model of a `tokenizer.json`, which Transformers 5 writes without it.

The file has the pieces and the table of the normalization. Those of NLLB have the merges of BPE in
their order: SentencePiece merges the pair whose result has the best score; the score is therefore
the negative rank of the first merge that results in a piece. Those of T5, mT5 and mBART-50 have the
logarithm of the probability of each piece (Unigram).
"""

import base64
import binascii
import pathlib
from collections.abc import Container, Iterator, Mapping
from math import isfinite
from typing import Any

from tf_transformer.errors import InputError
from tf_transformer.printable import shown
from tf_transformer.storage.json_files import parse_json
from tf_transformer.storage.regular_files import read_regular
from tf_transformer.text.sentencepiece_model_pb2 import ModelProto

# NLLB's file has 33 MB.
MAX_BYTES = 2**28
# Settings of the tokenizer as Transformers 5 writes them; each may be missing.
_BPE: dict[str, Any] = {
    "type": "BPE",
    "dropout": None,
    "continuing_subword_prefix": None,
    "end_of_word_suffix": None,
    "byte_fallback": False,
    "ignore_merges": False,
    "fuse_unk": True,  # as SentencePiece does
}
_UNIGRAM: dict[str, Any] = {"type": "Unigram", "byte_fallback": False}
_METASPACE = {
    "type": "Metaspace",
    "replacement": "\u2581",
    "prepend_scheme": "always",
    "add_prefix_space": True,  # the same in older files
}
_WHITESPACE = {"type": "WhitespaceSplit"}
_STRIP = {"type": "Strip", "strip_left": False, "strip_right": True}
# Steps that do what SentencePiece does with spaces; Transformers 4 writes the second and third.
_SPACES = [
    {"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": " "},
    {"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": "\u2581"},
    _STRIP,
]


def sentencepiece_model(path: pathlib.Path, special: Container[str]) -> bytes:
    """Returns the serialized SentencePiece model of a `tokenizer.json`.

    Args:
        path: the file.
        special: pieces that take no part in segmentation.

    Raises:
        InputError: the file is damaged, or its tokenizer is of another kind.
    """
    content = parse_json(read_regular(path, MAX_BYTES), path)
    model = content.get("model")
    is_unigram = isinstance(model, Mapping) and model.get("type") == "Unigram"
    _check(model, _UNIGRAM if is_unigram else _BPE, path, "model")
    scores = (_unigram_scores if is_unigram else _bpe_scores)(content["model"], path)
    result = ModelProto()
    trainer = result.trainer_spec
    trainer.model_type = trainer.UNIGRAM if is_unigram else trainer.BPE
    result.normalizer_spec.add_dummy_prefix = True
    result.normalizer_spec.escape_whitespaces = True
    result.normalizer_spec.remove_extra_whitespaces = _splits_at_spaces(content, path)
    for step in _normalizers(content.get("normalizer"), path):
        if step in _SPACES:
            result.normalizer_spec.remove_extra_whitespaces = True
        else:
            result.normalizer_spec.precompiled_charsmap = _table(step, path)
    for name, kind in (("<unk>", "UNKNOWN"), ("<s>", "CONTROL"), ("</s>", "CONTROL")):
        result.pieces.add(piece=name, score=0.0, type=kind)
    for name, score in scores.items():
        if name and name not in special:
            result.pieces.add(piece=name, score=score, type="NORMAL")
    return result.SerializeToString()


def check_beside_model(path: pathlib.Path) -> None:
    """Checks a `tokenizer.json` beside a SentencePiece model, which is what segments text here.

    Args:
        path: the file; it need not exist.

    Raises:
        InputError: it changes text otherwise than a SentencePiece model can, as by lower case.
    """
    if not path.exists():
        return
    content = parse_json(read_regular(path, MAX_BYTES), path)
    for step in _steps(content.get("normalizer")):
        if not (step in _SPACES or _treats_spaces(step)):
            raise InputError(
                f"{path}: the normalizer {shown(step)} is not supported, since the SentencePiece "
                "model beside it does not do the same"
            )


def _treats_spaces(step: Any) -> bool:
    """Returns whether a step is a table, as SentencePiece has it, or concerns spaces only."""
    match step:
        case {"type": "Precompiled" | "Strip" | "Nmt" | "NFKC"}:
            return True
        case {"type": "Replace", "content": str(text)} | {"type": "Prepend", "prepend": str(text)}:
            return not text.strip(" \u2581")
    return False


def piece_ids(path: pathlib.Path) -> dict[Any, Any]:
    """Returns the id of each piece of a `tokenizer.json`, without the added tokens.

    Raises:
        InputError: the file is damaged.
    """
    model = parse_json(read_regular(path, MAX_BYTES), path).get("model")
    if isinstance(model, Mapping) and model.get("type") == "Unigram":
        return {name: token_id for token_id, name in enumerate(_unigram_scores(model, path))}
    return dict(_bpe_ids(model, path))


def _bpe_ids(model: Any, path: pathlib.Path) -> Mapping[str, Any]:
    vocabulary = model.get("vocab") if isinstance(model, Mapping) else None
    if not isinstance(vocabulary, Mapping):
        raise InputError(f"{path}: expected the ids of pieces as model.vocab")
    return vocabulary


def _bpe_scores(model: Mapping[str, Any], path: pathlib.Path) -> dict[str, float]:
    ranks = _ranks(model.get("merges"), path)
    return {name: -float(ranks.get(name, len(ranks) + 1)) for name in _bpe_ids(model, path)}


def _unigram_scores(model: Mapping[str, Any], path: pathlib.Path) -> dict[str, float]:
    vocabulary, scores = model.get("vocab"), {}
    for entry in vocabulary if isinstance(vocabulary, list) else [None]:
        match entry:
            case [str(name), int() | float() as score] if name not in scores and isfinite(score):
                scores[name] = float(score)
            case _:
                raise InputError(
                    f"{path}: expected different pieces and their scores as model.vocab, got "
                    f"{shown(entry)}"
                )
    return scores


def _splits_at_spaces(content: Mapping[str, Any], path: pathlib.Path) -> bool:
    """Returns whether texts are split at spaces, so that there is one for several.

    Raises:
        InputError: no space is put before each word.
    """
    found = content.get("pre_tokenizer")
    steps = found.get("pretokenizers") if isinstance(found, Mapping) else None
    if isinstance(steps, list) and len(steps) == 2 and steps[0] == _WHITESPACE:
        _check(steps[1], _METASPACE, path, "pre_tokenizer")
        return True
    _check(found, _METASPACE, path, "pre_tokenizer")
    return False


def strips_parts(path: pathlib.Path) -> bool:
    """Returns whether spaces at the end of each part of a text are removed.

    Parts are what is between added tokens that are found before the normalization.

    Args:
        path: a `tokenizer.json`.

    Raises:
        InputError: no space is put before each part, as NLLB's tokenizer does.
    """
    content = parse_json(read_regular(path, MAX_BYTES), path)
    return _splits_at_spaces(content, path) or _STRIP in _steps(content.get("normalizer"))


def _check(found: Any, required: Mapping[str, Any], path: pathlib.Path, section: str) -> None:
    if not isinstance(found, Mapping):
        raise InputError(f"{path}: expected an object {section!r}, got {shown(found)}")
    for name, value in required.items():
        if found.get(name, value) != value:
            raise InputError(
                f"{path}: expected {section}.{name}={value!r}. Received: {shown(found[name])}"
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
