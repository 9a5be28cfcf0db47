"""What all comparisons with the originals have in common."""

from collections.abc import Iterator

import pytest


@pytest.fixture(scope="module", autouse=True)
def without_sample_translations() -> Iterator[None]:
    """Spares imports their two translations: the tests compare more with the originals'."""
    with pytest.MonkeyPatch.context() as patch:
        check = "tf_transformer.formats.import_model._check_translations"
        patch.setattr(check, lambda *_: None)
        yield
