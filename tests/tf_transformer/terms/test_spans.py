"""Protected spans, by example."""

import pytest
import tensorflow as tf

from tf_transformer.terms.limits import SPAN_BITS
from tf_transformer.terms.spans import find_spans


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("See https://example.com/a?b=c&d=(e).", ["https://example.com/a?b=c&d=(e)"]),
        ("(https://x.de/a_(b), WWW.y.de!)", ["https://x.de/a_(b)", "WWW.y.de"]),
        ("(see http://x.de) http://y.de/a(b http://", ["http://x.de", "http://y.de/a"]),
        ("http://x.de/a_(b)_(c)/[d]", ["http://x.de/a_(b)_(c)/[d"]),
        ("访问https://example.com查看，“https://x.de”。", ["https://example.com", "https://x.de"]),
        ("https://x.de/a。谢谢 https://y.de/b，c", ["https://x.de/a", "https://y.de/b"]),
        ('<a href="https://x.de/é">«ftp://z.de»', ["https://x.de/é", "ftp://z.de"]),
        ("müller@x.de, a.b+c@d-e.co.uk.", ["müller@x.de", "a.b+c@d-e.co.uk"]),
        ("写信给ab@x.de吧", ["ab@x.de"]),
        ("{name} ${x} {{ y }} %s %(n)s %1$s %5.2f", "{name} ${x} {{_y_}} %s %(n)s %1$s %5.2f"),
        ("3 é5 5é x6 1,000.5 12:30 7年 -8 9.", ["3", "1,000.5", "12:30", "7", "8", "9"]),
        ("x_1 2_ 3\x1f4\x1e5", ["3", "4", "5"]),
        ("", []),
    ],
)
def test_spans(text, expected):
    found = find_spans(tf.constant([text]), tf.constant([sum(SPAN_BITS.values())]))
    if isinstance(expected, str):
        expected = [span.replace("_", " ") for span in expected.split()]
    assert [span.decode() for span in found[0].numpy()] == expected


def test_kinds_are_per_row():
    text = "www.x.de a@b.de {x} 5"
    rows = tf.constant([text] * 5)
    found = find_spans(rows, tf.constant([0, *SPAN_BITS.values()])).to_list()
    assert found == [[], *([part.encode()] for part in text.split())]
