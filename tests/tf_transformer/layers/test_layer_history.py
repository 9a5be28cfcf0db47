"""The mix of layers against its equation in NumPy."""

import numpy as np
import pytest

from tests.numpy_reference import read_norm
from tf_transformer.layers.layer_history import LayerHistory


@pytest.mark.parametrize("norm_position", ["post", "pre"])
def test_equation(norm_position):
    rng = np.random.default_rng(1)
    history = LayerHistory(num_layers=2, norm_position=norm_position)
    history.build([(None, None, 4)] * 2)
    for mix in history.mixes:
        size = mix.shape[0]
        np.testing.assert_allclose(mix, np.full(size, 1 / size))
        mix.assign(rng.normal(size=size))
    for norm in history.norms:
        norm.gamma.assign(rng.normal(size=4))
    y = rng.normal(size=(3, 2, 3, 4)).astype("float32")
    norms = [read_norm(norm) for norm in history.norms]
    mixes = [np.asarray(mix) for mix in history.mixes]
    first, kept = history([y[0], y[1]])
    second, _ = history([y[0], kept, y[2]])
    if norm_position == "pre":
        n1, n2 = norms[0](y[1]), norms[1](y[2])
        expected = (
            mixes[0][0] * y[0] + mixes[0][1] * n1,
            mixes[1][0] * y[0] + mixes[1][1] * n1 + mixes[1][2] * n2,
        )
    else:
        expected = (
            norms[0](mixes[0][0] * y[0] + mixes[0][1] * y[1]),
            norms[1](mixes[1][0] * y[0] + mixes[1][1] * y[1] + mixes[1][2] * y[2]),
        )
    np.testing.assert_allclose(first, expected[0], atol=1e-5)
    np.testing.assert_allclose(second, expected[1], atol=1e-5)
