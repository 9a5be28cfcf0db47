"""Lists of strings in every form that has an order."""

import collections

import numpy as np
import pytest
import tensorflow as tf

from tf_transformer.errors import InputError
from tf_transformer.text.texts import encode_text, list_of_texts

TEXTS = ["a", "b c", "", "ä"]
BYTES = [text.encode() for text in TEXTS]
BATCHES = tf.data.Dataset.from_tensor_slices(TEXTS).batch(4)


@pytest.mark.parametrize(
    "texts",
    [
        TEXTS, tuple(TEXTS), iter(TEXTS), collections.deque(TEXTS), dict.fromkeys(TEXTS).keys(),
        BYTES, np.array(TEXTS), np.array(TEXTS, object), np.array(BYTES), np.array(BYTES, object),
        [np.str_(text) for text in TEXTS], tf.constant(TEXTS), tf.Variable(TEXTS),
        tf.constant([*TEXTS, "more"])[:4], next(iter(BATCHES)),
    ],
    ids=lambda texts: type(texts).__name__,
)  # fmt: skip
def test_forms(texts):
    found = list_of_texts(texts, "texts")
    assert [text if isinstance(text, bytes) else text.encode() for text in found] == BYTES


@pytest.mark.parametrize(
    "texts", [[], (), np.array([], str), np.array([], object), tf.constant([], tf.string)]
)
def test_no_texts(texts):
    assert list_of_texts(texts, "texts") == []


@pytest.mark.parametrize(
    ("texts", "received"),
    [
        ("a b", r"a single string, 'a b'\. Put it into a list$"),
        (np.str_("a"), r"a single string, "),
        (tf.constant("a"), r"a single string, b'a'"),
        (np.array("a"), r"ndarray of the shape \(\)$"),
        ({"a": 1}, r"dict\. Give its texts as a list$"),
        ({"encoder_text": ["a"]}, r"dict\. Give its texts as a list$"),
        ({"a", "b"}, r"set\. Give its texts as a list$"),
        (frozenset("a"), r"frozenset\. Give its texts as a list$"),
        (np.array([["a"], ["b"]]), r"ndarray of the shape \(2, 1\)$"),
        (tf.constant([["a"]]), r"EagerTensor of the shape \(1, 1\)$"),
        (tf.ragged.constant([["a"], []]), r"ndarray at index 0$"),
        (np.array([1, 2]), r"int at index 0$"),
        (tf.constant([1, 2]), r"int at index 0$"),
        (np.array(["a", None], object), r"NoneType at index 1$"),
        (["a", float("nan")], r"float at index 1$"),
        ([["a"]], r"list at index 0$"),
        ([tf.constant("a")], r"EagerTensor at index 0$"),
        (7, r"int$"),
        (None, r"NoneType$"),
    ],
)
def test_what_is_refused(texts, received):
    with pytest.raises(
        InputError, match=f"^`texts` must be a list of strings. Received: {received}"
    ):
        list_of_texts(texts, "texts")


def test_symbolic_tensors_are_refused():
    with pytest.raises(InputError, match=r"must be a list of strings\. Received: SymbolicTensor"):
        tf.function(lambda texts: list_of_texts(texts, "texts"), autograph=False)(
            tf.constant(["a"])
        )


@pytest.mark.parametrize("form", [list, tuple, iter, lambda texts: np.array(texts, object)])
def test_surrogates_are_refused(form):
    message = r"^`texts`, index 1: not Unicode text: a lone surrogate, U\+D83D, at character 2"
    with pytest.raises(InputError, match=message) as caught:
        list_of_texts(form(["a", "b \ud83d"]), "texts")
    assert "\n" not in str(caught.value)
    assert encode_text("b \U0001f600", "text") == b"b \xf0\x9f\x98\x80"
