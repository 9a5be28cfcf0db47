"""Reading word vectors in the text format of word2vec and GloVe."""

import logging

import numpy as np
import tqdm

from tf_transformer.errors import InputError
from tf_transformer.text.text_file import TextFile
from tf_transformer.text.tokenizer import Tokenizer

_log = logging.getLogger(__name__)

_WORD_START = "▁"  # begins SentencePiece's pieces at the start of a word


def read_vectors(file: TextFile, tokenizer: Tokenizer, d_model: int) -> np.ndarray:
    """Returns the vectors of a vocabulary's pieces, for `TokenEmbedding.set_vectors`.

    A line is a word and `d_model` numbers, separated by spaces. A first line of two numbers, as
    word2vec writes, is skipped. The vector of a word is assigned to the piece `word`, and also to
    the piece `▁word` unless the file has a vector for that one. Vectors are not scaled.

    Args:
        file: the file of vectors.
        tokenizer: tokenizer of the vocabulary.
        d_model: width of the vectors.

    Returns:
        `(vocab_size, d_model)` float32; NaN for pieces without a vector.

    Raises:
        InputError: a line is not a word and `d_model` numbers, or no piece has a vector.
    """
    ids = {piece: token_id for token_id, piece in enumerate(tokenizer.pieces)}
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
        word_start = _WORD_START + word
        if word_start in ids and word_start not in exact:
            vectors[ids[word_start]] = vector
    found = int(np.isfinite(vectors[:, 0]).sum())
    if found == 0:
        raise InputError(
            f"{file}: no word in it is a piece of the vocabulary; give vectors of its language"
        )
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
