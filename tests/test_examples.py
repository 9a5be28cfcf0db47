"""Every example runs, and does what it says."""

import importlib.util
import pathlib

import pytest

EXAMPLES = pathlib.Path(__file__).parent.parent / "examples"


def load_example(name):
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.slow
def test_custom_fit_learns_to_reverse():
    assert load_example("custom_fit").main(steps=450) > 0.9


def test_custom_fit_is_short():
    assert len((EXAMPLES / "custom_fit.py").read_text().splitlines()) <= 60
