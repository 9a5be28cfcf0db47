"""Upper case and title case, compared with Python's, in many scripts."""

import os
import subprocess
import sys

import pytest
import tensorflow as tf

from tests.gpu_kernels import nodes_of
from training.noise.letter_case import title_case, upper_case

TEXTS = [
    "straße und ﬁn",
    "istanbul ııı iİI",
    "e\u0301te\u0301 nai\u0308ve",
    "中文没有大小写。",
    "👩\u200d🔬 und 👍🏽 ❤\ufe0f",
    "ελληνικά ΐ σας",
    "привет мир",
    "ნინო и 𐐨𐑌",
    "ŉ ǆ ᾳ",
    "  two  spaces\u3000wide\u00a0 ",
    "",
    " ",
    "\u0345a \u24d0 ⅷ",
]


def texts_of(function, texts):
    return [text.decode() for text in function(tf.constant(texts)).numpy()]


def test_upper_case_is_that_of_unicode():
    assert texts_of(upper_case, TEXTS) == [text.upper() for text in TEXTS]


def test_every_character():
    """Alone in a word, as Python has it; tags and addresses contain some that are left alone."""
    characters = [
        chr(code) for code in range(0x20, 0x20000) if chr(code).upper() != chr(code).title()
    ]
    characters += [chr(code) for code in range(0x20, 0x20000) if chr(code).upper() != chr(code)]
    assert len(characters) > 1400
    words = [f"x{character}" for character in characters]
    assert texts_of(upper_case, words) == [word.upper() for word in words]
    letters = [character for character in characters if character.isalpha()]
    assert texts_of(title_case, letters) == [letter.title() for letter in letters]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a man don't  wait", "A Man Don't  Wait"),
        ("iPhone mcDonald", "IPhone McDonald"),
        ("'quoted' (so) „ja“ «oui» ¿qué?", "'Quoted' (So) „Ja“ «Oui» ¿Qué?"),
        ("the 2nd of 3rd", "The 2nd Of 3rd"),
        ("well-known", "Well-known"),
        ("e\u0301te\u0301", "E\u0301te\u0301"),
        ("ǆ ŉ ß", "ǅ ʼN Ss"),
        ("中文没有大小写。", "中文没有大小写。"),
        ("👩\u200d🔬 x", "👩\u200d🔬 X"),
        ("", ""),
        (" \u3000a", " \u3000A"),
    ],
)
def test_title_case(text, expected):
    assert texts_of(title_case, [text]) == [expected]


@pytest.mark.parametrize("function", [upper_case, title_case])
@pytest.mark.parametrize(
    "word",
    [
        "<2de>",
        ">>deu<<",
        "<b1>",
        "a.b@c.de",
        "http://x.de/a",
        "@me",
        "#tag",
        "{name}",
        "a_b",
        "x=y",
    ],
)
def test_tags_and_addresses_are_untouched(function, word):
    (text,) = texts_of(function, [f"{word} see  {word}"])
    assert text.split("  ") == [f"{word} {'SEE' if function is upper_case else 'See'}", word]


@pytest.mark.parametrize("change", [upper_case, title_case])
def test_no_operation_depends_on_the_locale(change):
    """As those of TensorFlow for upper and lower case do."""
    function = tf.function(change).get_concrete_function(tf.TensorSpec([None], tf.string))
    operations = {node.op for node in nodes_of(function.graph.as_graph_def())}
    assert "UnicodeDecode" in operations
    assert not operations & {"StringUpper", "StringLower"}


@pytest.mark.exhaustive  # by its operations
@pytest.mark.slow
def test_the_locale_of_the_process_has_no_effect():
    """TensorFlow's own op makes "İ" of "i" in a Turkish locale."""
    program = (
        "import tensorflow as tf; from training.noise.letter_case import upper_case, title_case;"
        "print(upper_case(tf.constant(['i ı']))[0].numpy().decode().encode('unicode_escape'),"
        "title_case(tf.constant(['ix ıx']))[0].numpy().decode().encode('unicode_escape'))"
    )
    environment = os.environ | {"LC_ALL": "tr_TR.UTF-8", "LANG": "tr_TR.UTF-8"}
    ended = subprocess.run(
        [sys.executable, "-c", program],
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert ended.returncode == 0, ended.stderr[-2000:]
    assert ended.stdout == "b'I I' b'Ix Ix'\n"
