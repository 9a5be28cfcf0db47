"""Every example runs, and does what it says."""

import importlib.util
import os
import pathlib
import shutil
import subprocess
import sys

import pytest

from tests.conftest import SMALL_SETTINGS
from tf_transformer import NoamSchedule, Transformer
from tf_transformer.__main__ import make_parser
from training.settings import make_config, parse_setting, read_settings

EXAMPLES = pathlib.Path(__file__).parent.parent / "examples"


def load_example(name):
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.exhaustive
@pytest.mark.slow
def test_custom_fit_learns_to_reverse():
    assert load_example("custom_fit").main(steps=270) > 0.9


@pytest.mark.slow
def test_custom_fit_runs(recwarn):
    assert 0 <= load_example("custom_fit").main(steps=20) <= 1
    assert not [warning for warning in recwarn if "shuffle" in str(warning.message)]


def test_custom_fit_is_short():
    assert len((EXAMPLES / "custom_fit.py").read_text().splitlines()) <= 60


RECIPES = sorted(EXAMPLES.glob("*.yaml"))


def test_all_recipes_are_here():
    assert {recipe.stem for recipe in RECIPES} == {
        "annotated-multi30k",
        "multi30k-en-de",
        "niutensor",
        "wmt14-en-de-base",
        "wmt14-en-de-big",
        "wmt14-en-fr-big",
    }


# What the texts, or the lab notebook, say: vocabulary, batch tokens, steps, warm-up, label
# smoothing, dropout, d_model, d_ff, heads, and how many of the last checkpoints are averaged.
BASE, BIG = (0.1, 512, 2048, 8), (0.3, 1024, 4096, 16)
FIGURES = {
    "annotated-multi30k": (8000, 4096, 6000, 3000, 0.1, *BASE, 5),
    "multi30k-en-de": (8000, 4096, 5000, 2000, 0.1, 0.15, 128, 256, 4, 5),
    "niutensor": (None, 4096, 100_000, 8000, 0.1, 0.3, 512, 1024, 4, 10),
    "wmt14-en-de-base": (37_000, 25_000, 100_000, 4000, 0.1, *BASE, 5),
    "wmt14-en-de-big": (37_000, 25_000, 300_000, 4000, 0.1, *BIG, 20),
    "wmt14-en-fr-big": (32_000, 25_000, 300_000, 4000, 0.1, 0.1, *BIG[1:], 20),
}


@pytest.mark.slow
@pytest.mark.parametrize("recipe", RECIPES, ids=lambda recipe: recipe.stem)
def test_recipe(recipe):
    """Parsed, with the figures of its text, and built but for the vocabulary."""
    config = make_config(read_settings(recipe, {}))
    model = Transformer(config.transformer_config(50, 50))
    vocabulary, tokens, steps, warmup, smoothing, dropout, d_model, d_ff, heads, kept = FIGURES[
        recipe.stem
    ]
    if vocabulary is not None:
        assert config.vocabulary.size == vocabulary
    assert config.data.batch_tokens == tokens
    optimization = config.optimization
    assert (optimization.steps, optimization.warmup_steps) == (steps, warmup)
    assert optimization.label_smoothing == smoothing
    assert optimization.keep_checkpoints >= kept
    sizes = model.config
    assert (sizes.dropout_rate, sizes.d_model, sizes.d_ff, sizes.num_heads) == (
        dropout,
        d_model,
        d_ff,
        heads,
    )
    is_tiny = recipe.stem == "multi30k-en-de"
    assert sizes.num_encoder_layers == sizes.num_decoder_layers == (4 if is_tiny else 6)
    peak = (2.5 if is_tiny else 1) * (d_model * warmup) ** -0.5
    if recipe.stem == "niutensor":
        peak = 0.0015
    schedule = NoamSchedule(d_model, warmup, optimization.learning_rate_factor)
    assert float(schedule(warmup - 1)) == pytest.approx(peak, rel=1e-4)
    if recipe.stem.startswith("wmt14"):
        assert sizes.attention_dropout_rate == sizes.feed_forward_dropout_rate == 0.0
        assert sizes.norm_position == "post"
        assert sizes.tied_embeddings == "all"


MULTI30K = [
    f"{part}.{side}" for part in ("train", "val", "test_2016_flickr") for side in ("en", "de")
]


def run_distilled(path, *arguments):
    """Runs multi30k-distilled.sh with a PATH that begins with a folder; returns its output."""
    command = ["sh", EXAMPLES / "multi30k-distilled.sh", *arguments]
    environment = os.environ | {"PATH": f"{path}:{os.environ['PATH']}"}
    done = subprocess.run(command, env=environment, text=True, capture_output=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_commands_of_distillation(tmp_path):
    """Each command that the script gives is valid, and a student is evaluated."""
    (tmp_path / "tf-transformer").write_text('#!/bin/sh\necho "$@"\n')
    (tmp_path / "tf-transformer").chmod(0o755)
    output = run_distilled(tmp_path, "corpus", "out", "--set", "data.batch_tokens=99")
    commands = [line.split() for line in output.splitlines() if " " in line]
    names = [*["train", "average"] * 2, *["distill", "train", "average"] * 2, *["evaluate"] * 2]
    assert [command[0] for command in commands] == names
    parsed = [make_parser().parse_args(command) for command in commands]
    trainings = [options for options, name in zip(parsed, names, strict=True) if name == "train"]
    assert [options.seed for options in trainings] == [1, 2, 11, 21]
    folders = [options.model_dir for options in trainings]
    assert [options.init_from for options in trainings] == [None, None, folders[0], folders[2]]
    teachers = [options.teacher for options in parsed if hasattr(options, "teacher")]
    assert teachers == [[folders[:2]], [folders[:3]]]
    for options in trainings:
        config = make_config(read_settings(options.config, *map(parse_setting, options.set)))
        assert config.data.batch_tokens == 99
    assert config.transformer_config(50, 50).dropout_rate == 0.1
    assert all(options.model_dir == [folders[3]] for options in parsed[-2:])


def test_usage_of_distillation():
    done = subprocess.run(
        ["sh", EXAMPLES / "multi30k-distilled.sh"], text=True, capture_output=True
    )
    assert done.returncode == 2
    assert done.stderr == "usage: sh multi30k-distilled.sh CORPUS OUTPUT [OPTION ...]\n"


@pytest.mark.exhaustive
@pytest.mark.slow
def test_distillation_runs(corpus, tmp_path):
    for name in MULTI30K:
        kind, _, language = name.partition(".")
        part = "train" if kind == "train" else "validation"
        shutil.copy(corpus.path(f"{part}.{language}"), tmp_path / name)
    settings = [f"{name}={value}" for name, value in SMALL_SETTINGS.items()]
    options = ["--steps", "6", "--checkpoint-every", "1", "--vocab-size", "400", "--set", *settings]
    where = [str(tmp_path), str(tmp_path / "out with spaces")]
    for _ in range(2):  # the second time there is nothing to do
        output = run_distilled(pathlib.Path(sys.executable).parent, *where, *options)
        assert output.count("BLEU") == 2
