"""Vocabularies of byte-level BPE as `vocab.json` and `merges.txt`, for `BartTokenizer`."""

import itertools
import math
import pathlib
from collections.abc import Mapping, Sequence

from tf_transformer.formats.hf.byte_vocabulary import MERGES_NAME
from tf_transformer.formats.hf.tokenizer import MASK, SPECIAL, VOCABULARY_NAME
from tf_transformer.storage.json_files import write_json
from tf_transformer.text.byte_level.characters import CHARACTERS, to_gpt2
from tf_transformer.text.special_ids import END_ID
from tf_transformer.text.vocabulary import Vocabulary

# The tokens of `tokenizer_config.json`.
TOKENS = {
    **{"bos_token": "<s>", "cls_token": "<s>", "eos_token": "</s>", "sep_token": "</s>"},
    **{"unk_token": "<unk>", "pad_token": "<pad>", "mask_token": MASK},
}


def write_byte_level(folder: pathlib.Path, vocabulary: Vocabulary, rows: Sequence[int]) -> None:
    """Writes the files of a vocabulary.

    Args:
        folder: an existing folder.
        vocabulary: the vocabulary of an imported BART, see `ByteVocabulary`.
        rows: our id of each written id.
    """
    names = [vocabulary.pieces[token_id] for token_id in rows]
    ids = {to_gpt2(name): written_id for written_id, name in enumerate(names)}
    write_json(folder / VOCABULARY_NAME, ids)
    merges = merges_of(vocabulary)
    lines = ["#version: 0.2", *(" ".join(map(to_gpt2, pair)) for pair in merges)]
    (folder / MERGES_NAME).write_text("\n".join(lines) + "\n", encoding="utf-8")


def merges_of(vocabulary: Vocabulary) -> list[tuple[str, str]]:
    """Returns the merges in their order.

    SentencePiece knows the results of merges alone, and the order, which the scores are. The pair
    of a merge is what the earlier merges make of the characters of its result.
    """
    ranks = _ranks(vocabulary)
    ordered = sorted(ranks, key=ranks.__getitem__)
    return [_pair(piece, ranks) for piece in ordered]


def _ranks(vocabulary: Vocabulary) -> dict[str, float]:
    """Returns the rank of each piece that is the result of a merge."""
    found = zip(vocabulary.pieces, vocabulary.scores, strict=True)
    scores = dict(itertools.islice(found, END_ID + 1, None))
    no_results = {*SPECIAL, MASK, *CHARACTERS}
    # Unused pieces have the lowest score, below that of characters, which are no results either.
    lowest = min(scores[char] for char in CHARACTERS)
    return {
        piece: -score
        for piece, score in scores.items()
        if piece not in no_results and score > lowest
    }


def _pair(piece: str, ranks: Mapping[str, float]) -> tuple[str, str]:
    """Returns the two pieces that are merged to this one."""
    symbols = list(piece)
    while len(symbols) > 2:
        found = (
            (ranks.get(first + second, math.inf), index)
            for index, (first, second) in enumerate(itertools.pairwise(symbols))
        )
        rank, index = min(found)
        if rank >= ranks[piece]:  # merges of a longer text lead to it: any pair of pieces does
            return _split(piece, ranks)
        symbols[index : index + 2] = ["".join(symbols[index : index + 2])]
    first, second = symbols
    return first, second


def _split(piece: str, ranks: Mapping[str, float]) -> tuple[str, str]:
    """Returns the two pieces, made by the earliest merges, that a piece consists of."""

    def rank(part: str) -> float:
        return -1.0 if len(part) == 1 else ranks.get(part, math.inf)

    splits = [(piece[:i], piece[i:]) for i in range(1, len(piece))]
    return min(splits, key=lambda pair: max(map(rank, pair)))
