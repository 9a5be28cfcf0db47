"""The one mask convention: boolean, True = may attend."""

import keras
import numpy as np
import pytest

from tf_transformer.layers import masks

IDS = np.array([[5, 6, 7, 0, 0], [8, 9, 3, 4, 1], [2, 0, 0, 0, 0]], "int32")
LENGTHS = [3, 5, 1]


@pytest.fixture(autouse=True)
def seed():
    keras.utils.set_random_seed(1)


def is_bool(tensor):
    return keras.backend.standardize_dtype(tensor.dtype) == "bool"


def test_padding_id():
    assert masks.PAD_ID == 0


@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_padding_mask(dtype):
    mask = masks.padding_mask(IDS.astype(dtype))
    assert is_bool(mask)
    np.testing.assert_array_equal(
        mask, [[position < length for position in range(5)] for length in LENGTHS]
    )


@pytest.mark.parametrize("length", [1, 2, 6])
def test_causal_mask(length):
    mask = masks.causal_mask(length)
    assert is_bool(mask)
    np.testing.assert_array_equal(
        mask, [[key <= query for key in range(length)] for query in range(length)]
    )


def test_padding_attention_mask():
    mask = masks.padding_attention_mask(masks.padding_mask(IDS))
    assert is_bool(mask)
    assert mask.shape == (3, 1, 1, 5)
    np.testing.assert_array_equal(mask[:, 0, 0], IDS != 0)


def test_causal_attention_mask():
    mask = masks.causal_attention_mask(masks.padding_mask(IDS))
    assert is_bool(mask)
    assert mask.shape == (3, 1, 5, 5)
    expected = [
        [[key <= query and key < length for key in range(5)] for query in range(5)]
        for length in LENGTHS
    ]
    np.testing.assert_array_equal(mask[:, 0], expected)
