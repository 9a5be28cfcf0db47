"""Typing errors: which there are, how often, and what they never touch."""

import collections
import math
import unicodedata

import pytest
import tensorflow as tf

from training.noise.draws import pair_keys
from training.noise.typos import add_typos


def typed(texts, rate, seed=1):
    keys = pair_keys(seed, tf.range(len(texts)))
    return [text.decode() for text in add_typos(tf.constant(texts), keys, rate).numpy()]


def clusters(text):
    """Letters with their combining characters."""
    found = []
    for character in text:
        if found and unicodedata.combining(character):
            found[-1] += character
        else:
            found.append(character)
    return found


def errors_of(text):
    """All texts with one error of a word without equal neighbours, and the kind of each error."""
    letters, found = clusters(text), collections.defaultdict(set)
    for index, letter in enumerate(letters):
        before, after = letters[:index], letters[index + 1 :]
        if after:
            found["swap"].add("".join([*before, after[0], letter, *after[1:]]))
        found["drop"].add("".join(before + after))
        found["double"].add("".join([*before, letter, letter, *after]))
    return found


WORD = "spring"
# Left and right of each letter of `WORD` on an English keyboard.
NEIGHBOURS = {"s": "ad", "p": "oo", "r": "et", "i": "uo", "n": "bm", "g": "fh"}


def test_kinds_of_errors_are_equally_frequent():
    """A last letter that cannot be swapped is dropped."""
    rate = 0.02
    result = [text for text in typed([WORD] * 40_000, rate) if text != WORD]
    known = errors_of(WORD)
    for index, letter in enumerate(WORD):
        for other in NEIGHBOURS[letter]:
            known["neighbour"].add(WORD[:index] + other + WORD[index + 1 :])
    counts = {kind: sum(text in texts for text in result) for kind, texts in known.items()}
    single = sum(counts.values())
    assert single > 0.93 * len(result)  # others have two errors
    assert {text for texts in known.values() for text in texts} <= set(result)
    expected = {"swap": 5 / 24, "drop": 7 / 24, "double": 6 / 24, "neighbour": 6 / 24}
    for kind, share in expected.items():
        deviation = math.sqrt(share * (1 - share) / single)
        assert abs(counts[kind] / single - share) < 5 * deviation, kind


@pytest.mark.parametrize("rate", [0.01, 0.2, 1.0])
def test_rate_is_that_of_a_letter(rate):
    """Doubled letters alone can be counted one by one: words of one letter."""
    text = "a. 中 e\u0301 4 ? "
    result = typed([text] * 3000, rate)
    doubled = sum(len(clusters(line)) - len(clusters(text)) for line in result)
    # "a" may also become its neighbour "s".
    replaced = sum("s" in line for line in result)
    number = 9000
    deviation = math.sqrt(number * rate * (1 - rate))
    assert abs(doubled + replaced - rate * number) <= 5 * deviation
    assert abs(replaced - rate * 750) <= 5 * math.sqrt(750 * rate)


@pytest.mark.parametrize(
    "text", ["ábç", "e\u0301z\u030ca\u0308", "नमस्ते", "한국말", "中文没", "яши"]
)
def test_letters_keep_their_combining_characters(text):
    letters = clusters(unicodedata.normalize("NFC", text) if text == "ábç" else text)
    keyboards = set("йцукенгшщзхъфывапролджэячсмитьбюqwertyuiopasdfghjklzxcvbnm")
    for line in typed([text] * 300, 0.3):
        assert set(clusters(line)) <= set(letters) | keyboards
        if text in ("नमस्ते", "한국말", "中文没"):
            assert set(clusters(line)) <= set(letters)
    known = errors_of(text)
    seen = set(typed([text] * 3000, 0.1))
    if text in ("한국말", "中文没", "e\u0301z\u030ca\u0308"):
        assert {error for kind in ("swap", "drop", "double") for error in known[kind]} <= seen


@pytest.mark.parametrize(
    "text",
    [
        "<2de> >>en<< <b1> </b>",
        "a.b@c.de https://example.com/page www.x.de/y",
        "B2 4711 AB-12 x1",
        "#tag @user {name} a_b",
        "👩\u200d🔬 ❤\ufe0f 👍🏽 🇩🇪 !? ,. \u3000",
        "",
        "   ",
    ],
)
def test_what_is_never_changed(text):
    assert typed([text] * 20, 1.0) == [text] * 20


def test_errors_stay_within_words():
    texts = ["ab  cd\u3000ef\u00a0gh"] * 500
    for line in typed(texts, 0.5):
        before, middle, rest = line.partition("  ")
        assert middle and set(before) <= set("absnv")
        second, wide, rest = rest.partition("\u3000")
        assert wide and set(second) <= set("cdxvsf")
        third, space, last = rest.partition("\u00a0")
        assert space and set(third) <= set("efwrdg") and set(last) <= set("ghfj")
        assert before and second and third and last


def test_letters_next_to_punctuation():
    """A swap does not move a letter beyond a comma."""
    known = {"a,b", "aa,b", "s,b", "a,bb", "a,v", "a,n", ",b", "a,"}
    found = set(typed(["a,b"] * 5000, 0.02))
    assert known <= found
    assert not any(text.startswith(",a") or text.endswith("b,") for text in found)


def test_equal_letters_are_not_swapped_without_effect():
    """Every error changes the text, unless another one undoes it."""
    number, share = 20_000, 1 - 0.98**4
    changed = sum(text != "aaaa" for text in typed(["aaaa"] * number, 0.02))
    assert abs(changed - share * number) < 5 * math.sqrt(share * (1 - share) * number)
