"""The patterns of graphs and those of clients without TensorFlow find the same."""

import re

import numpy as np
import pytest
import tensorflow as tf

from export.markup.words import split_words
from tf_transformer.terms.limits import SPAN_BITS
from tf_transformer.terms.span_patterns import PLACEHOLDER, URL
from tf_transformer.terms.spans import find_spans

PARTS = [
    *("http://", "https://", "HTTP://", "www.", "www", "a.de", "/b", "?x=1&y=2", "#c", "é", "ß"),
    *("(", ")", "[", "]", "{", "}", "{{", "}}", "$", "%", "s", "5", "0", "-", "+", "1$", ".2f"),
    *(" ", "\n", "\t", "\u00a0", "\u3000", "\u200b", "\u2028", "\x1f", "\x0b"),
    *(".", ",", ":", "!", "'"),
    *(
        '"',
        "«",
        "»",
        "“",
        "”",
        "…",
        "<",
        ">",
        "`",
        "_",
        "%(n)",
        "{name}",
        "{{ a }}",
        "ſ",
        "好",
        "あ",
        "カ",
        "ก",
    ),
    *(
        "、",
        "。",
        "，",
        "「",
        "」",
        "！",
        "한",
        "ש",
        "ب",
        "я",
        "ｶ",
        "々",
        "・",
        "㋐",
        "—",
        "؟",
        "*",
        "〇",
        "٣",
        "\U00020000",
    ),
]


def texts(number):
    draw = np.random.default_rng(0)
    return ["".join(draw.choice(PARTS, size=draw.integers(1, 14))) for _ in range(number)]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "pattern"),
    [("urls", URL), ("placeholders", PLACEHOLDER)],
    ids=["urls", "placeholders"],
)
def test_both_engines_find_the_same(kind, pattern):
    drawn = texts(20_000)
    found = find_spans(tf.constant(drawn), tf.fill([len(drawn)], SPAN_BITS[kind]))
    expected = [re.findall(pattern, text.replace("\x1f", " "), re.ASCII) for text in drawn]
    assert sum(map(bool, expected)) > 2000
    for text, spans, of_re in zip(drawn, found.to_list(), expected, strict=True):
        assert [span.decode() for span in spans] == of_re, text


@pytest.mark.slow
def test_no_word_ends_within_a_span():
    for text in texts(20_000):
        ends = {place for word in split_words(text) for place in word}
        for span in re.finditer(f"{URL}|{PLACEHOLDER}", text, re.ASCII):
            assert not ends & set(range(span.start() + 1, span.end())), text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('See {{ url("http://a.de/x") }} now', ['{{ url("http://a.de/x") }}']),
        (
            "{www.a.de} {a@b.de} {{ mail('a@b.de') }}",
            ["{www.a.de}", "{a@b.de}", "{{ mail('a@b.de') }}"],
        ),
        ("http://a.de/{id}/x and x@b.de", ["http://a.de/{id}/x", "x@b.de"]),
        ("http://a.de/{{ id }}/x", ["http://a.de/{{ id }}/x"]),
        ("https://{{host}}/x", ["https://{{host}}/x"]),
        ("see http://a.de/Foo_(bar_(baz)).", ["http://a.de/Foo_(bar_(baz))"]),
        ("请看http://a.cn——这是", ["http://a.cn"]),
        ("http://a.de؟ http://b.de।", ["http://a.de", "http://b.de"]),
        ("**http://a.de** _http://b.de_", ["http://a.de", "http://b.de"]),
        ("http://a.jp・http://b.jp", ["http://a.jp", "http://b.jp"]),
        ("{a}{b}%s%d", ["{a}", "{b}", "%s", "%d"]),
    ],
)
def test_several_kinds_together(text, expected):
    """What begins first is a span; so a kind never takes away from another one."""
    bits = SPAN_BITS["urls"] + SPAN_BITS["emails"] + SPAN_BITS["placeholders"]
    (spans,) = find_spans(tf.constant([text]), tf.constant([bits])).to_list()
    assert [span.decode() for span in spans] == expected


LONG = [
    *("%" + "0" * 10**5, "%(" * 10**5, "%1$" * 10**5, "{" * 10**5, "{{a" * 10**5),
    *("http://" + "." * 10**5, "http://" + "(a" * 10**5, "www." * 10**5),
    "https://" + "a.[b]" * 10**5,
]


@pytest.mark.parametrize("text", LONG, ids=lambda text: text[:12])
def test_long_texts_take_linear_time(text):
    """Else these would take hours."""
    split_words(text)
