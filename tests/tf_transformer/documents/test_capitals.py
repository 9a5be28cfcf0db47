"""Sentences in capitals: found, written in sentence case, and capitalized again."""

import typing

import pytest
import tensorflow as tf

from tf_transformer.documents.capitals import find_capitals, restore_capitals, sentence_case
from tf_transformer.text.special_ids import UNKNOWN_ID

UPPER = "EIN MANN SCHLÄFT AUF DER STRASSE."


class Pieces:
    """A tokenizer with one piece for most words; unknown words are one unknown piece."""

    NUMBERS: typing.ClassVar = {
        b"monday": 2,
        b"nato": 3,
        b"Nato": 2,
        b"\xc3\xa4pfel!\xe2\x80\x9c": 3,
    }

    def tokenize(self, text):
        rows = [
            [UNKNOWN_ID if word == b"berlin" else 7] * self.NUMBERS.get(word, 1)
            for word in text.numpy()
        ]
        return tf.ragged.constant(rows, tf.int32, ragged_rank=1)


def lowered_text(text, capitals, **options):
    found = sentence_case(tf.constant([text]), capitals, Pieces(), **options)
    return found[0].numpy().decode()


def find(text, is_wanted=True):
    return find_capitals(tf.constant([text]), tf.constant([is_wanted]))


@pytest.mark.parametrize(
    ("text", "lowered", "restored"),
    [
        ("A MAN IS SLEEPING.", "A man is sleeping.", UPPER),
        ("„ÜBER 3 ÄPFEL!“", "„Über 3 Äpfel!“", UPPER),
        ("ОН ИДЁТ ДОМОЙ", "Он идёт домой", UPPER),
        ("NATO MEETS IN BERLIN ON MONDAY", "NATO meets in Berlin on Monday", UPPER),
        ("A Man Is Sleeping", "A man is sleeping", "Ein Mann Schläft Auf Der Straße."),
        ("A Woman Rides a Bike", "A woman rides a bike", "Ein Mann Schläft auf der Straße."),
        ("Man bites BIG DOG today", "Man bites big dog today", None),
        ("BIG DOG bites man", "Big dog bites man", None),
        ("NATO", "NATO", None),
        ("我在 NASA 和 IBM 工作。", "我在 NASA 和 IBM 工作。", None),
        ("NASA IBM 和 Lady Gaga Poker Face", "NASA IBM 和 Lady Gaga Poker Face", None),
        ("אני ב NASA ו IBM", "אני ב NASA ו IBM", None),
        ("VEA LA Nº 5 Y LA 2ª", "Vea la nº 5 y la 2ª", UPPER),
        ("The NATO meets", "The NATO meets", None),
        ("A man named John Smith", "A man named John Smith", None),
        ("Today is Monday, 3 May", "Today is Monday, 3 May", None),
        ("John Smith Speaks", "John Smith Speaks", None),
        ("On Friday Anna met Paul.", "On Friday Anna met Paul.", None),
        ("Is Tom in New York?", "Is Tom in New York?", None),
        ("Brot, Milch, Eier und Käse!", "Brot, Milch, Eier und Käse!", None),
        ("On Friday Anna met Paul", "On friday anna met paul", "Ein Mann Schläft auf der Straße."),
        ("THE TRAIN LEAVES AT 3 p.m.", "The train leaves at 3 p.m.", None),
        ("DIE STRAßE IST GROß", "Die straße ist groß", UPPER),
        ("A DJ has 3 photos", "A DJ has 3 photos", None),
        ("I SEE A BIG DOG there", "I see a big dog there", None),
        ("iPhone 5", "iPhone 5", None),
        ("你好。", "你好。", None),
        ("1 2 3", "1 2 3", None),
        ("", "", None),
        (" ", " ", None),
    ],
)
def test_sentence_case_and_back(text, lowered, restored):
    capitals = find(text)
    assert lowered_text(text, capitals) == lowered
    translation = "Ein Mann schläft auf der Straße."
    found = restore_capitals(tf.constant([translation]), capitals)[0].numpy().decode()
    assert found == (restored or translation)


def test_words_in_spans():
    assert find("Man bites BIG DOG today").in_span.to_list() == [[False, False, True, True, False]]
    assert not find("A MAN BITES").has_span.numpy()[0]  # the whole sentence
    assert not find("He says I AM here", is_wanted=False).has_span.numpy()[0]


def test_only_where_wanted():
    text = "A MAN IS SLEEPING."
    capitals = find(text, is_wanted=False)
    assert lowered_text(text, capitals) == text
    assert restore_capitals(tf.constant(["Ein"]), capitals)[0].numpy() == b"Ein"


def test_i_is_a_capital_in_english():
    text = "MAY I COME, I'M HERE, SIR (I)"
    capitals = find(text)
    assert lowered_text(text, capitals, is_english=True) == "May I come, I'm here, sir (I)"


@pytest.mark.slow
def test_rows_are_apart():
    texts = ["A MAN SLEEPS.", "big BAD WOLF", "A Man Is Here", "nothing", ""]
    together = find_capitals(tf.constant(texts), tf.fill([5], True))
    lowered = sentence_case(tf.constant(texts), together, Pieces()).numpy().tolist()
    assert [text.decode() for text in lowered] == [lowered_text(text, find(text)) for text in texts]
    assert together.in_span.to_list() == [find(text).in_span.to_list()[0] for text in texts]
