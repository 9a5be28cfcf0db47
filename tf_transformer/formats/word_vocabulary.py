"""SentencePiece models of whole words, for vocabularies whose segmentation is another program's.

Some toolkits translate text that Moses' tokenizer and subword-nmt have split before. Their
vocabularies contain no rules to do that. With such a model, text that has been tokenized and split
gets exactly the vocabulary's ids, and a translation is its tokens with spaces between them.
"""

import re
from collections.abc import Sequence

from tf_transformer.errors import InputError
from tf_transformer.formats.sentencepiece_ids import add_special
from tf_transformer.printable import shown
from tf_transformer.text.sentencepiece_model_pb2 import ModelProto, TrainerSpec
from tf_transformer.text.vocabulary import OUTSIDE, WORD_BEGIN, WORD_SEPARATORS, words_mark

SEGMENTED_BEFORE = (
    "No SentencePiece model is beside the vocabulary: text must be tokenized and split into the "
    "vocabulary's words before, separated by spaces, as for the original program."
)


def word_model(words: Sequence[str], separators: str) -> bytes:
    """Returns a SentencePiece model of type WORD, whose text a `Vocabulary` only splits.

    Nothing is normalized. Each word that is not in the vocabulary gets the unknown id, and so do
    the names of special pieces, such as `</s>`. (SentencePiece itself gives one unknown id to
    several such words in sequence, and separates words at spaces only.)

    Args:
        words: the vocabulary without special pieces; the first one gets id 4.
        separators: what separates words in a text, a key of `WORD_SEPARATORS`.

    Returns:
        The serialized model.

    Raises:
        InputError: a word is empty, contains a separator, occurs twice, or cannot be stored.
    """
    _check_words(words, separators)
    model = ModelProto()
    model.trainer_spec.model_type = TrainerSpec.WORD
    model.normalizer_spec.name = "identity"
    add_special(model, set())
    for word in words:
        model.pieces.add(piece=WORD_BEGIN + word, score=0.0)
    for mark in (OUTSIDE, words_mark(separators)):
        model.pieces.add(piece=mark, score=0.0, type="CONTROL")
    return model.SerializeToString()


def _check_words(words: Sequence[str], separators: str) -> None:
    characters = frozenset(WORD_SEPARATORS[separators])
    seen: set[str] = set()
    for word in words:
        # A pickle can contain half a surrogate pair, which is not Unicode.
        is_stored = word.isascii() or not re.search("[\ud800-\udfff]", word)
        if not word or not characters.isdisjoint(word) or word in seen or not is_stored:
            raise InputError(
                f"the words of a vocabulary must be different, not empty, and without {separators} "
                f"in them. Received: {shown(word)}"
            )
        seen.add(word)
