"""Words that were added to a tokenizer of Transformers, in a SentencePiece model.

Transformers finds such words in the text before SentencePiece, and splits the texts between them
one by one, each with a space before it: `in Cologne.` is `▁in`, `Cologne`, `▁.`. Here a word is a
user-defined piece, and a rule of the normalization puts the spaces around it. A mark at its end,
which no other piece has, keeps it apart from the same word in the model's vocabulary; a rule of the
denormalization removes it. Language tags have rules, too, since words may be parts of them, such as
`eng` of `>>eng_Latn<<`.
"""

from collections.abc import Sequence
from typing import NamedTuple

from tf_transformer.errors import InputError
from tf_transformer.formats.normalization_rules import add_rules
from tf_transformer.printable import shown
from tf_transformer.text.sentencepiece_model_pb2 import ModelProto
from tf_transformer.text.vocabulary import WORD_BEGIN

# The combining grapheme joiner, a mark without a shape: a piece still ends in a letter.
_MARK = "\u034f"


class AddedWord(NamedTuple):
    """A word, found wherever it is written in a text, inside of longer words, too.

    Attributes:
        text: the word.
        splits_space: whether a space before the word is a piece of its own, as in the tokenizers in
            Rust. In those of SentencePiece it belongs to the word.
    """

    text: str
    splits_space: bool = False

    @property
    def piece(self) -> str:
        """The piece of the vocabulary."""
        return WORD_BEGIN + self.text.replace(" ", WORD_BEGIN) + _MARK


def add_words(model: ModelProto, words: Sequence[AddedWord], tags: Sequence[str]) -> None:
    """Adds rules that find words, whose pieces the model has, to a SentencePiece model.

    Args:
        model: the model, which is changed.
        words: the words.
        tags: the language tags, such as `>>fra_Latn<<`, in which no words are found. A space after
            them is no piece of its own.

    Raises:
        InputError: the model has other rules for spaces, or a word cannot be found by a rule.
    """
    if not words:
        return
    normalizer = model.normalizer_spec
    treats_spaces_as_usual = (
        normalizer.add_dummy_prefix
        and normalizer.remove_extra_whitespaces
        and normalizer.escape_whitespaces
        and not model.trainer_spec.treat_whitespace_as_suffix
    )
    if not treats_spaces_as_usual:
        raise InputError(
            "words that were added to a tokenizer need a SentencePiece model with one space before "
            f"each word and none at the ends. Received: {shown(words[0].text)} and another model"
        )
    rules: dict[str, str] = {}
    endings = {_MARK: ""}
    for word in words:
        _check(word.text)
        rules[word.text] = f" {word.text}{_MARK} "
        if word.splits_space:
            rules[f" {word.text}"] = f" {WORD_BEGIN}{word.text}{_MARK} "
            endings[f" {word.text}{_MARK}"] = word.text
    for tag in tags:
        # The longest rule counts: each is longer than that of a word, with its spaces.
        for kept in (tag, f" {tag}", f"{tag} ", f" {tag} "):
            rules[kept] = kept
    normalizer.precompiled_charsmap = add_rules(normalizer.precompiled_charsmap, rules)
    denormalizer = model.denormalizer_spec  # of texts made of pieces
    denormalizer.add_dummy_prefix = False
    denormalizer.remove_extra_whitespaces = False
    denormalizer.escape_whitespaces = False
    denormalizer.precompiled_charsmap = add_rules(denormalizer.precompiled_charsmap, endings)


def _check(text: str) -> None:
    if text.strip(" ") != text or not text or "\0" in text or _MARK in text:
        raise InputError(
            "a word that was added to a tokenizer must be text without a space at its ends. "
            f"Received: {shown(text)}"
        )
