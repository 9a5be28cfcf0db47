"""The words between which tags may stand."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from export.markup.words import split_words
from tests.export.markup.fake_translators import fixed
from tests.export.markup.test_placement import html


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("don't, 3.5 a@b.de!", ["don't", ",", "3.5", "a@b.de", "!"]),
        ("你好 x", ["你", "好", "x"]),
        ("{y}{x}%s%d's", ["{y}", "{x}", "%s", "%d", "'", "s"]),
        ("a {name}, v{x}", ["a", "{name}", ",", "v", "{x}"]),
        ("${x}s {{a}}", ["${x}", "s", "{{a}}"]),
        ("%s-x 50% %(n)s.", ["%s", "-", "x", "50", "%", "%(n)s", "."]),
        ("see https://a.b/c?d=(e). Next", ["see", "https://a.b/c?d=(e)", ".", "Next"]),
        ("(www.a.de/b?x=1&y=2)", ["(", "www.a.de/b?x=1&y=2", ")"]),
        ("请看https://a.b/c，我", ["请", "看", "https://a.b/c", "，", "我"]),
        ("「https://a.b/c」是", ["「", "https://a.b/c", "」", "是"]),
        ("{{ user }} %5.2f %-5d", ["{{ user }}", "%5.2f", "%-5d"]),
        ("a.\u200f b", ["a", ".\u200f", "b"]),
        ("a.\u200fb a-\u200b", ["a.\u200fb", "a", "-\u200b"]),
        ("{ } {a b} x{y 100 % d", ["{", "}", "{", "a", "b", "}", "x", "{", "y", "100", "%", "d"]),
    ],
)
def test_by_hand(text, expected):
    assert [text[start:end] for start, end in split_words(text)] == expected


@given(st.text(st.sampled_from("ab1 {}%$s.:/-'好\u0301\u200b"), max_size=30))
@example("a {{ b }} c")
def test_all_but_white_space_is_in_one_word(text):
    """White space is in none, but in a placeholder such as {{ b }}."""
    words = split_words(text)
    assert all(start < end and text[start:end].strip() == text[start:end] for start, end in words)
    covered = [index for start, end in words for index in range(start, end)]
    assert covered == sorted(set(covered))
    spaces = [text[index].isspace() for index in range(len(text)) if index not in set(covered)]
    assert all(spaces)
    inside = [text[start:end] for start, end in words if any(map(str.isspace, text[start:end]))]
    assert all("{{" in word and word.endswith("}}") for word in inside)


def test_elements_follow_their_placeholders():
    source, target = "Two men at {a}, {b} and %s.", "Zwei an {b}{a} und %s Leute."
    document = "Two <b>men</b> at <i>{a}</i>, <u>{b}</u> and <s>%s</s>."
    links = "0-0 1-5"
    found = html(document, fixed(source, target, links))
    assert found == "Zwei an <u>{b}</u><i>{a}</i> und <s>%s</s> <b>Leute</b>."
