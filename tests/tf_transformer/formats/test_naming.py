"""Arrays that cannot be converted."""

import numpy as np
import pytest

from tf_transformer.formats.naming import convert_weights
from tf_transformer.formats.originals import ANNOTATED


def test_integers_are_refused():
    shapes = {"encoder/final_norm/gamma": (3,)}
    (name,) = dict(convert_weights(shapes, ANNOTATED, {"encoder.norm.a_2": np.ones(3)}))
    assert name == "encoder/final_norm/gamma"
    arrays = convert_weights(shapes, ANNOTATED, {"encoder.norm.a_2": np.ones(3, "int64")})
    with pytest.raises(ValueError, match=r"norm\.a_2: expected floating-point.* Received: int64"):
        next(arrays)
