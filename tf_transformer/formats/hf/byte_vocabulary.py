"""Vocabularies of byte-level BPE as SentencePiece models: `vocab.json` and `merges.txt`.

Or `tokenizer.json`, which has both. SentencePiece merges the pair whose result has the best score,
which is the negative rank of the merge with this result, and a table of its normalization writes
bytes as the characters that stand for them. `Tokenizer` gives it the parts of a text one by one
(`text.byte_level`), since no merge goes beyond one.

Deviations: SentencePiece merges two pieces whose result is a piece also if they are another pair
than that of the merge, which in GPT-2's vocabulary, that of BART, does not occur; and a zero byte,
for which its table has no place, is unknown.
"""

import pathlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tf_transformer.errors import InputError
from tf_transformer.formats.hf.added_tokens import (
    DESCRIPTION_NAME,
    TOKENIZER_NAME,
    TokenIds,
    read_added_tokens,
    read_description,
)
from tf_transformer.formats.hf.folder import MAX_VOCABULARY_BYTES, read_vocabulary
from tf_transformer.formats.hf.tokenizer import MASK, SPECIAL, VOCABULARY_NAME
from tf_transformer.formats.normalization_rules import add_rules
from tf_transformer.formats.sentencepiece_ids import add_special, check_pieces
from tf_transformer.formats.vocabulary_rows import VocabularyRows
from tf_transformer.printable import shown
from tf_transformer.storage.regular_files import read_regular
from tf_transformer.text.byte_level.characters import CHARACTERS, from_gpt2
from tf_transformer.text.sentencepiece_model_pb2 import ModelProto
from tf_transformer.text.vocabulary import BEGINS_TWICE, BYTE_LEVEL, OUTSIDE

MERGES_NAME = "merges.txt"
Merges = Sequence[tuple[str, str]]
_VERSION = "#version"  # of the first line of `merges.txt`
# Settings of the tokenizer in `tokenizer.json`, and their possible values; each may be missing.
_MODEL: dict[str, tuple[Any, ...]] = {
    "type": ("BPE",),
    "dropout": (None, 0.0),
    "continuing_subword_prefix": (None, ""),
    "end_of_word_suffix": (None, ""),
    "byte_fallback": (False,),
    "ignore_merges": (False,),
}
_SPLIT = {"type": ("ByteLevel",), "add_prefix_space": (False,), "use_regex": (True,)}
_FRAME = {
    "type": ("RobertaProcessing",),
    "cls": (["<s>", 0],),
    "sep": (["</s>", 2],),
    "add_prefix_space": (False,),
}


class ByteVocabulary:
    """The vocabulary of a folder.

    Args:
        folder: the folder.

    Attributes:
        names: the name of each id, with SentencePiece's symbol for a space.
        merges: the pairs of pieces that are merged, in their order.

    Raises:
        InputError: a file is missing or damaged, the files contradict each other, a byte or a
            merged piece has no id, or the tokenizer has a feature that is not supported.
    """

    def __init__(self, folder: pathlib.Path):
        self.folder = folder
        if (folder / VOCABULARY_NAME).exists() or not (folder / TOKENIZER_NAME).exists():
            path, merges_path = folder / VOCABULARY_NAME, folder / MERGES_NAME
            names: Iterator[tuple[Any, Any]] = (
                (name, token_id) for token_id, name in enumerate(read_vocabulary(path))
            )
            merges = _read_merges(merges_path)
        else:
            path = merges_path = folder / TOKENIZER_NAME
            content = read_description(path)
            _check_steps(content, path)
            names = _ids(content["model"], path)
            merges = _pairs(content["model"].get("merges"), path)
        ids = TokenIds(folder)
        for name, token_id in names:
            ids.state(name, token_id, path.name)
        _check_added(folder, ids)
        self.names = list(map(from_gpt2, ids.names()))
        self.merges = [(from_gpt2(first), from_gpt2(second)) for first, second in merges]
        _check_bytes(self.names, path)
        _check_merges(self.merges, set(self.names), merges_path)

    def sentencepiece_model(self, rows: VocabularyRows, *, begins_twice: bool) -> bytes:
        """Returns the serialized SentencePiece model with the ids of `rows`.

        Args:
            rows: the order of the vocabulary.
            begins_twice: see `Vocabulary.begin_ids`.
        """
        check_pieces(rows.pieces)
        model = ModelProto()
        model.trainer_spec.model_type = model.trainer_spec.BPE
        normalizer, denormalizer = model.normalizer_spec, model.denormalizer_spec
        for spec in (normalizer, denormalizer):
            spec.add_dummy_prefix = False
            spec.remove_extra_whitespaces = False
            spec.escape_whitespaces = False
        normalizer.escape_whitespaces = True
        table = {bytes([byte]): char.encode() for byte, char in enumerate(CHARACTERS)}
        table = {byte: char for byte, char in table.items() if byte not in (b"\0", b" ", char)}
        normalizer.precompiled_charsmap = add_rules(b"", table)
        denormalizer.precompiled_charsmap = add_rules(b"", {x: byte for byte, x in table.items()})
        add_special(model, set(rows.pieces))
        ranks: dict[str, int] = {}
        for rank, (first, second) in enumerate(self.merges):
            ranks.setdefault(first + second, rank)
        for name in rows.pieces:
            if name in (*SPECIAL, MASK):  # which no text contains
                model.pieces.add(piece=name, score=0.0, type="CONTROL")
            elif name in ranks or name in CHARACTERS:
                score = -float(ranks.get(name, len(ranks)))
                model.pieces.add(piece=name, score=score, type="NORMAL")
            else:
                model.pieces.add(piece=name, score=-float(len(ranks) + 1), type="UNUSED")
        for mark in (OUTSIDE, BYTE_LEVEL, *([BEGINS_TWICE] if begins_twice else [])):
            model.pieces.add(piece=mark, score=0.0, type="CONTROL")
        return model.SerializeToString()


def _read_merges(path: pathlib.Path) -> Merges:
    try:
        lines = read_regular(path, MAX_VOCABULARY_BYTES).decode().split("\n")
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: expected text in UTF-8 ({error})") from error
    first = 1 if lines[0].startswith(_VERSION) else 0
    lines = [line.removesuffix("\r") for line in lines[first:]]
    return _pairs([line for line in lines if line], path)


def _pairs(found: Any, path: pathlib.Path) -> Merges:
    pairs = []
    for pair in found if isinstance(found, list) else [None]:
        match pair.split(" ") if isinstance(pair, str) else pair:  # older files join them
            case [str(first), str(second)] if first and second:
                pairs.append((first, second))
            case _:
                raise InputError(f"{path}: expected pairs of pieces as merges, got {shown(pair)}")
    return pairs


def _ids(model: Mapping[str, Any], path: pathlib.Path) -> Iterator[tuple[Any, Any]]:
    vocabulary = model.get("vocab")
    if not isinstance(vocabulary, Mapping):
        raise InputError(f"{path}: expected the ids of pieces as model.vocab")
    yield from vocabulary.items()


def _check_steps(content: Mapping[str, Any], path: pathlib.Path) -> None:
    """Checks that the steps of a tokenizer are BART's."""
    if content.get("normalizer"):
        raise InputError(f"{path}: expected no normalizer, got {shown(content['normalizer'])}")
    sections = {"model": _MODEL, "pre_tokenizer": _SPLIT, "post_processor": _FRAME}
    for section, settings in sections.items():
        found = content.get(section)
        if not isinstance(found, Mapping):
            raise InputError(f"{path}: expected an object {section!r}, got {shown(found)}")
        for name, values in settings.items():
            if found.get(name, values[0]) not in values:
                raise InputError(
                    f"{path}: expected {section}.{name}={values[0]!r}. "
                    f"Received: {shown(found[name])}"
                )


def _check_added(folder: pathlib.Path, ids: TokenIds) -> None:
    """Adds the ids of the special tokens; others must not be found in a text before the pieces."""
    for token in read_added_tokens(folder):
        if token.name not in (*SPECIAL, MASK):
            raise InputError(
                f"{folder / token.file}: the added token {shown(token.name)} is not supported, "
                f"only {', '.join(SPECIAL)} and {MASK}"
            )
        ids.state(token.name, token.token_id, token.file)
    path = folder / DESCRIPTION_NAME
    if path.exists() and read_description(path).get("add_prefix_space"):
        raise InputError(f"{path}: add_prefix_space is not supported")


def _check_bytes(names: Sequence[str], path: pathlib.Path) -> None:
    missing = set(CHARACTERS) - set(names)
    if missing:
        raise InputError(
            f"{path}: expected a piece for each byte, as in GPT-2's vocabulary; {len(missing)} of "
            f"them are missing, such as {shown(min(missing))}"
        )


def _check_merges(merges: Merges, names: set[str], path: pathlib.Path) -> None:
    seen: set[str] = set()
    for pair in merges:
        merged = "".join(pair)
        for name in (*pair, merged):
            if name not in names or name in (*SPECIAL, MASK):
                raise InputError(f"{path}: the merge {shown(pair)} has no piece {shown(name)}")
        if merged in seen:
            raise InputError(
                f"{path}: expected one merge for each piece, got two for {shown(merged)}"
            )
        seen.add(merged)
