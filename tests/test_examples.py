"""Every example runs, and does what it says."""

import importlib.util
import pathlib

import pytest

from tf_transformer import NoamSchedule, Transformer, TransformerConfig
from training.config import load_config

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


RECIPES = sorted(EXAMPLES.glob("*.yaml"))


def test_all_recipes_are_here():
    assert {recipe.stem for recipe in RECIPES} == {
        "annotated-multi30k",
        "niutensor",
        "wmt14-en-de-base",
        "wmt14-en-de-big",
        "wmt14-en-fr-big",
    }


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda recipe: recipe.stem)
def test_recipe(recipe):
    """Parsed, and built in its own sizes but for the vocabulary."""
    config = load_config(recipe, {})
    model = Transformer(config.transformer_config(50, 50))
    base = TransformerConfig.preset("base", source_vocab_size=50, target_vocab_size=50)
    assert (model.config.d_model == 1024) == recipe.stem.endswith("big")
    assert model.config.num_encoder_layers == base.num_encoder_layers
    if recipe.stem == "niutensor":
        schedule = NoamSchedule(
            model.config.d_model,
            config.optimization.warmup_steps,
            config.optimization.learning_rate_factor,
        )
        assert float(schedule(7999)) == pytest.approx(0.0015, rel=1e-4)
    if recipe.stem == "wmt14-en-fr-big":
        assert model.config.dropout_rate == 0.1
