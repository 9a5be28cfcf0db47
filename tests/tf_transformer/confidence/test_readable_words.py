"""Words of scripts with and without spaces between words."""

import tensorflow as tf

from tf_transformer import Tokenizer
from tf_transformer.confidence.readable_words import readable_words
from tf_transformer.word_alignment.piece_words import group_by_word
from training.config import VocabularyConfig
from training.data.vocabulary import train_sentencepiece

LINES = ["我们 喜欢 北京。", "Peter bought an old phone, ok.", "hen nen ten", "ใน", "おちゃ 2"] * 4
EXPECTED = {
    "我们喜欢北京。": ["我", "们", "喜", "欢", "北", "京。"],
    "我们 喜欢": ["我", "们", "喜", "欢"],
    "Peter们, ok": ["Peter", "们,", "ok"],
    "我old 2京 2": ["我", "old", "2", "京", "2"],
    "an old phone.": ["an", "old", "phone."],
    "北☕京 ☕": ["北☕", "京", "☕"],  # as bytes
    "お茶": ["お茶"],  # 茶 as bytes: no piece tells its script
    "ใน": ["ใ", "น"],
    "": [],
}


def test_words():
    """Each character is a piece here, but for `☕` and `茶`, which are bytes."""
    config = VocabularyConfig(size=320, kind="char", byte_fallback=True, character_coverage=1.0)
    tokenizer = Tokenizer(train_sentencepiece(LINES, config))
    ids = tokenizer.tokenize(tf.constant(list(EXPECTED)))
    groups = group_by_word(ids, readable_words(ids, tokenizer))
    for row, expected in enumerate(EXPECTED.values()):
        words = tokenizer.detokenize(groups[row]).numpy() if groups[row].shape[0] else []
        assert [word.decode() for word in words] == expected
