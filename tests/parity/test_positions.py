"""Sinusoids that start at another position than 0, against those of M2M100 and NLLB."""

import numpy as np
import pytest

from tf_transformer.layers.positions import PositionalEncoding

torch = pytest.importorskip("torch")
m2m_100 = pytest.importorskip("transformers.models.m2m_100.modeling_m2m_100")

pytestmark = pytest.mark.parity


def test_m2m100_counts_from_2():
    """Its padding has the id 1 and the position 1; the first token comes after."""
    original = m2m_100.M2M100SinusoidalPositionalEmbedding(12, 16, padding_idx=1)
    ours = PositionalEncoding(kind="concatenated", d_model=16, max_length=12, first_position=2)
    ids = torch.tensor([[5, 6, 7, 8, 2], [9, 4, 2, 1, 1]])
    expected = original(ids).numpy()
    for row, length in enumerate((5, 3)):
        np.testing.assert_allclose(ours(np.arange(length)), expected[row, :length], atol=1e-6)
    # One token at a time, as its decoder calls it with the number of tokens so far.
    for number in range(5):
        # By position: the third argument's name differs between versions of Transformers.
        single = original(torch.tensor([[7]]), None, number)[0].numpy()
        np.testing.assert_allclose(ours(np.array([number])), single, atol=1e-6)
