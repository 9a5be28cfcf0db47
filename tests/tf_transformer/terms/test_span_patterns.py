"""The patterns of graphs and those of clients without TensorFlow find the same."""

import re

import numpy as np
import pytest
import tensorflow as tf

from export.markup.words import URL, split_words
from tf_transformer.terms.limits import SPAN_BITS
from tf_transformer.terms.span_patterns import PLACEHOLDER
from tf_transformer.terms.spans import find_spans

PARTS = [
    *("http://", "https://", "HTTP://", "www.", "www", "a.de", "/b", "?x=1&y=2", "#c", "é", "ß"),
    *("(", ")", "[", "]", "{", "}", "{{", "}}", "$", "%", "s", "5", "0", "-", "+", "1$", ".2f"),
    *(" ", "\n", "\t", "\u00a0", "\u3000", "\u200b", "\u2028", "\x1f", "\x0b"),
    *(".", ",", ":", "!", "'"),
    *('"', "«", "»", "“", "”", "…", "<", ">", "`", "_", "%(n)", "{name}", "好", "あ", "カ", "ก"),
    *("、", "。", "，", "「", "」", "！", "한", "ש", "ب", "я", "ｶ", "々", "〇", "٣", "\U00020000"),
]


def texts(number):
    draw = np.random.default_rng(0)
    return ["".join(draw.choice(PARTS, size=draw.integers(1, 14))) for _ in range(number)]


@pytest.mark.parametrize(
    ("kind", "pattern"),
    [("urls", URL), ("placeholders", re.compile(PLACEHOLDER, re.ASCII))],
    ids=["urls", "placeholders"],
)
def test_both_engines_find_the_same(kind, pattern):
    drawn = texts(20_000)
    found = find_spans(tf.constant(drawn), tf.fill([len(drawn)], SPAN_BITS[kind]))
    expected = [pattern.findall(text.replace("\x1f", " ")) for text in drawn]
    assert sum(map(bool, expected)) > 2000
    for text, spans, of_re in zip(drawn, found.to_list(), expected, strict=True):
        assert [span.decode() for span in spans] == of_re, text


def test_no_word_ends_within_a_span():
    for text in texts(20_000):
        ends = {place for word in split_words(text) for place in word}
        for span in re.finditer(f"{URL.pattern}|{PLACEHOLDER}", text, re.ASCII):
            assert not ends & set(range(span.start() + 1, span.end())), text


LONG = [
    *("%" + "0" * 10**5, "%(" * 10**5, "%1$" * 10**5, "{" * 10**5, "{{a" * 10**5),
    *("http://" + "." * 10**5, "http://" + "(a" * 10**5, "www." * 10**5),
    "https://" + "a.[b]" * 10**5,
]


@pytest.mark.parametrize("text", LONG, ids=lambda text: text[:12])
def test_long_texts_take_linear_time(text):
    """Else these would take hours."""
    split_words(text)
