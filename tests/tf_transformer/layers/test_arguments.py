"""Arguments of layers that are out of range, or no word that is known."""

import numpy as np
import pytest

from tf_transformer import Encoder
from tf_transformer.errors import InputError
from tf_transformer.layers.dropout import Dropout
from tf_transformer.layers.embedding import TokenEmbedding
from tf_transformer.layers.positions import PositionalEncoding

LAYER = dict(d_ff=8, num_heads=2)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Encoder(num_layers=1, norm_type="x", **LAYER), "`norm_type` must be one of"),
        (
            lambda: Encoder(num_layers=1, relative_positions="x", **LAYER),
            "`relative_positions` must be one of",
        ),
        (lambda: Encoder(num_layers=1, norm_position="x", **LAYER), "`norm_position` must be one"),
        (lambda: Encoder(num_layers=1, activation="x", **LAYER), "`activation` must be one of"),
        (lambda: Encoder(num_layers=1, dropout_rate=2, **LAYER), "`rate` must be at least 0 and"),
        (lambda: Dropout(float("nan")), "`rate` must be at least 0 and less than 1. .* rate=nan"),
        (
            lambda: PositionalEncoding(kind="sinusoidal", d_model=4, max_length=9),
            "`kind` must be one of",
        ),
        (
            lambda: PositionalEncoding(kind="interleaved", d_model=5, max_length=9),
            "`d_model` must be even for sinusoids",
        ),
        (
            lambda: TokenEmbedding(vocab_size=5, d_model=4)(np.ones((1, 2), "float32")),
            "ids must be integers, such as int32. Received: float32",
        ),
    ],
)
def test_arguments_that_are_refused(make, message):
    with pytest.raises(InputError, match=message):
        make()
