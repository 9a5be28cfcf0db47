"""The activations of the feed-forward network; its equations are tested in test_layers.py."""

import typing

import pytest

from tf_transformer.config_checks import GATED_ACTIVATIONS, Activation
from tf_transformer.errors import InputError
from tf_transformer.layers.feed_forward import ACTIVATIONS, GATES, FeedForward


def test_activations_are_those_of_the_configuration():
    assert (*ACTIVATIONS, *GATES) == typing.get_args(Activation)
    assert tuple(GATES) == GATED_ACTIVATIONS
    with pytest.raises(InputError, match=r"`activation` must be one of .* Received: activation='r"):
        FeedForward(d_ff=8, activation="rely")
