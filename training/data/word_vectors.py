"""Word vectors in the text format of word2vec and GloVe, for the pieces of a vocabulary."""

import logging

import numpy as np
import tqdm

from tf_transformer.errors import InputError
from tf_transformer.text.text_file import TextFile
from tf_transformer.text.tokenizer import Tokenizer

_log = logging.getLogger(__name__)

_WORD_START = "▁"  # SentencePiece's mark on pieces that begin a word


def read_vectors(file: TextFile, tokenizer: Tokenizer, d_model: int) -> np.ndarray:
    """The vectors of a vocabulary's pieces, for `TokenEmbedding.set_vectors`.

    A line is a word and `d_model` numbers, separated by spaces; a first line of two numbers, as
    word2vec writes it, is skipped. A word's vector goes to the piece of the same text, and to the
    piece that begins a word with it where the file has no other for that. Numbers are taken as they
    are.

    Args:
        file: the vectors.
        tokenizer: of the vocabulary.
        d_model: width of the vectors.

    Returns:
        `(vocab_size, d_model)` float32, NaN where the file has no vector.

    Raises:
        ValueError: a line is not a word and so many numbers, or no piece has a vector.
    """
    ids = {piece: number for number, piece in enumerate(tokenizer.pieces)}
    vectors = np.full((tokenizer.vocab_size, d_model), np.nan, "float32")
    exact = set()
    lines = tqdm.tqdm(file.lines(), desc=f"reading {file}", unit=" vectors", disable=None)
    for number, line in enumerate(lines, 1):
        word, *values = line.split() or [""]
        if number == 1 and len(values) == 1:
            continue
        vector = _parse(values, d_model, f"{file}:{number}")
        if word in ids:
            vectors[ids[word]] = vector
            exact.add(word)
        beginning = _WORD_START + word
        if beginning in ids and beginning not in exact:
            vectors[ids[beginning]] = vector
    found = int(np.isfinite(vectors[:, 0]).sum())
    if found == 0:
        raise InputError(f"{file}: no word in it is a piece of the vocabulary")
    _log.info("%s: vectors for %s of %s pieces", file, f"{found:,}", f"{tokenizer.vocab_size:,}")
    return vectors


def _parse(values: list[str], d_model: int, where: str) -> np.ndarray:
    try:
        vector = np.array(values, "float32")
    except ValueError:
        vector = np.zeros(0)
    if len(vector) != d_model or not np.isfinite(vector).all():
        raise InputError(
            f"{where}: expected a word and {d_model} numbers (the model's width), "
            f"got {' '.join(values)[:60]!r} after the word ({len(values)} values)"
        )
    return vector
