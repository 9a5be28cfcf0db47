"""What the tests of imported checkpoints have in common."""

import itertools
import pathlib
import re

import numpy as np
import sentencepiece

from tf_transformer import Translator, load_model
from training.demo.corpus import generate_pairs

SOURCES, TARGETS = (list(side) for side in zip(*generate_pairs(1000, seed=1), strict=True))
ODD = [
    "Zoë's  naïve café\u2026 \u00bd",
    "\u4f60\u597d, world \U0001f600\U0001f601",
    "  spaces   and\ttabs ",
    "no\u00a0break\u3000ideographic\u2003em",
    "x",
    "\u2581",
    "ALL CAPS 3,141.59 & <b>markup</b> e\u0301",
]


def split_words(line: str) -> str:
    """Splits words of more than three letters, as subword-nmt marks the parts."""
    return re.sub(r"(\w{3})(?=\w)", r"\1@@ ", line)


def write_sentencepiece(
    path: pathlib.Path, lines: list[str]
) -> sentencepiece.SentencePieceProcessor:
    """Trains a SentencePiece model with default ids, and returns it."""
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(lines),
        model_prefix=str(path.with_suffix("")),
        vocab_size=120,
        model_type="unigram",
        character_coverage=1.0,
        hard_vocab_limit=False,
        minloglevel=2,
    )
    path.with_suffix(".vocab").unlink()
    return sentencepiece.SentencePieceProcessor(model_file=str(path))


def pieces_of(processor: sentencepiece.SentencePieceProcessor) -> list[str]:
    """Returns the pieces of a model of default ids, without the special ones."""
    return [processor.id_to_piece(number) for number in range(3, processor.vocab_size())]


class Imported:
    """An imported model, and the original's row of each of its ids.

    Attributes:
        model, source, target: the model and its tokenizers.
        source_rows, target_rows: the original's rows, by the names of the entries.
    """

    def __init__(self, folder: pathlib.Path, *vocabularies: list[str], special: list[str]):
        self.model, self.source, self.target = load_model(folder)
        rows = []
        for tokenizer, entries in zip((self.source, self.target), vocabularies, strict=True):
            names = tokenizer.pieces[4:]
            if tokenizer.word_separators:
                names = [name.removeprefix("\u2581") for name in names]
            rows.append(np.array([entries.index(name) for name in [*special, *names]]))
        self.source_rows, self.target_rows = rows

    def batch(self, texts, targets):
        """Returns ids of source, with the end id, and target, with the begin id."""
        source = self.source.tokenize(texts).to_tensor().numpy()
        source = np.pad(source, [(0, 0), (0, 1)])
        source[np.arange(len(source)), (source != 0).sum(1)] = 3
        target = self.target.tokenize(targets).to_tensor().numpy()
        return source, np.pad(target, [(0, 0), (1, 0)], constant_values=2)

    def translate(self, texts, max_length):
        """Returns greedy translations."""
        translator = Translator(
            self.model, self.source, self.target, beam_size=1,
            max_length_factor=0.0, max_length_constant=max_length,
        )  # fmt: skip
        return translator(texts)


def greedy(next_logits, rows, begin, end, never, max_length):
    """Returns the ids of the sentences that the logits prefer, one after the other.

    Args:
        next_logits: function from ids `(rows, length)` to the logits of the next ones.
        rows: number of sentences.
        begin: id that they start with.
        end: id that ends them.
        never: ids that are not chosen.
        max_length: number of ids at most.
    """
    found = np.full((rows, 1), begin)
    for _ in range(max_length):
        logits = np.array(next_logits(found), "float64")
        logits[:, never] = -np.inf
        found = np.concatenate([found, logits.argmax(1)[:, None]], axis=1)
    return [[*itertools.takewhile(lambda number: number != end, line)] for line in found[:, 1:]]
