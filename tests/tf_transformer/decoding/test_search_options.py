"""The table of search options, and what derives from it or is written beside it."""

import pytest

from tf_transformer.decoding.sampling import SamplingOptions
from tf_transformer.decoding.search_options import SAMPLING_OPTIONS, SEARCH_OPTIONS
from tf_transformer.decoding.translation_options import TranslationOptions


def test_options_of_the_search():
    assert TranslationOptions._fields == tuple(option.name for option in SEARCH_OPTIONS)
    defaults = TranslationOptions.defaults(2)
    for option in SEARCH_OPTIONS:
        value = getattr(defaults, option.name)
        assert value.dtype == option.dtype
        assert value.numpy().tolist() == [option.unset] * 2


def test_options_of_sampling():
    """Those of the signature `sample`, and others that only programs set."""
    names = {option.name for option in SAMPLING_OPTIONS}
    assert set(SamplingOptions._fields) == names | {"max_length", "epsilon"}


@pytest.mark.parametrize("option", [*SEARCH_OPTIONS, *SAMPLING_OPTIONS], ids=lambda o: o.name)
def test_verifications_try_the_default_and_others(option):
    assert any(sample == option.unset or sample < 0 > option.unset for sample in option.samples)
    assert len(set(option.samples)) > 2
