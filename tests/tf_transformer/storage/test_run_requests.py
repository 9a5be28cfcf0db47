"""What the error says when a run is resumed with another request."""

import pytest

from tf_transformer.errors import InputError
from tf_transformer.storage.run_requests import check_same_request

DIGEST, OTHER = "0123456789abcdef" * 2, "fedcba9876543210" * 2


@pytest.mark.parametrize(
    ("name", "former", "value", "difference"),
    [
        ("beam_size", 4, 5, "beam_size 4, not 5"),
        ("seed", 0, 1, "seed 0, not 1"),
        ("shard", "1/2", None, "shard '1/2', not without shard"),
        ("originals", True, False, "originals, not without originals"),
        ("weights", DIGEST, OTHER, "different weights"),
        ("shortlist", None, DIGEST, "different shortlist"),
        ("weights_digest_blake2b", DIGEST, OTHER, "different weights"),
        ("teachers", [{"x": DIGEST}], [{"x": DIGEST}, {"x": OTHER}], "different teachers"),
    ],
)
def test_a_difference_is_named(tmp_path, name, former, value, difference):
    request = {"other": DIGEST, name: value}
    check_same_request(tmp_path, request, dict(request), "advice")
    with pytest.raises(InputError) as error:
        check_same_request(tmp_path, request | {name: former}, request, "advice")
    assert str(error.value) == f"{tmp_path} was begun with {difference}; advice"
