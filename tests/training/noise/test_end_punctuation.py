"""Sentences without end punctuation: on both sides or on neither."""

import pytest
import tensorflow as tf

from training.noise.end_punctuation import without_end


def removed(source, target):
    return tuple(
        side.numpy()[0].decode()
        for side in without_end(tf.constant([source]), tf.constant([target]))
    )


@pytest.mark.parametrize(
    ("source", "target", "expected"),
    [
        ("Hello.", "Hallo.", ("Hello", "Hallo")),
        ("Hello.", "你好。", ("Hello", "你好")),
        ("Hello .", "नमस्ते ।", ("Hello", "नमस्ते")),
        ("Really ?", "真的？", ("Really", "真的")),
        ("Really?", "حقا؟", ("Really", "حقا")),
        ("No!!", "Nein!", ("No", "Nein")),
        ("Well...", "好吧……", ("Well", "好吧")),
        ("Hello. ", "Hallo.\u3000", ("Hello", "Hallo")),
        ("Room 12.", "12.", ("Room 12", "12")),
        ("A. B.", "C. D.", ("A. B", "C. D")),
    ],
)
def test_the_same_class_is_removed(source, target, expected):
    assert removed(source, target) == expected
    assert removed(target, source) == expected[::-1]


@pytest.mark.parametrize(
    ("source", "target"),
    [
        ("Hello.", "Hallo"),
        ("Hello.", "Hallo!"),
        ("Hello?", "Hallo."),
        ("Hello.", "Hallo..."),
        ("Hello?!", "Hallo?!"),  # a mixture
        ("Hello?.", "Hallo?."),
        ("He said 'Yes.'", "Er sagte: „Ja.“"),
        (".", "."),  # nothing would remain
        ("...", "…"),
        ("? !", "!"),
        ("", ""),
        ("Hello", "Hallo"),
        ("a, b;", "a, b;"),
        ("👩\u200d🔬!", "👩\u200d🔬!"),
    ],
)
def test_others_are_unchanged(source, target):
    assert removed(source, target) == (source, target)
    assert removed(target, source) == (target, source)
