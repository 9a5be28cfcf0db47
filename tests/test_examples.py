"""Every example runs, and does what it says."""

import dataclasses
import importlib.util
import os
import pathlib
import shutil
import subprocess
import sys

import pytest

from tests.conftest import SMALL_SETTINGS
from tf_transformer import NoamSchedule, Transformer, TransformerConfig
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
def test_custom_fit_runs(recwarn, monkeypatch):
    """With one layer of each kind, which takes half the time."""
    preset, layers = TransformerConfig.preset, dict(num_encoder_layers=1, num_decoder_layers=1)
    monkeypatch.setattr(TransformerConfig, "preset", lambda *a, **k: preset(*a, **(k | layers)))
    assert 0 <= load_example("custom_fit").main(steps=6) <= 1
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
    """Parsed, with the figures of its text, and built but for the vocabulary and the widths."""
    config = make_config(read_settings(recipe, {}))
    sizes = config.transformer_config(50, 50)
    Transformer(dataclasses.replace(sizes, d_model=8 * sizes.num_heads, d_ff=16))
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


PARTS = ("train", "val", "first_test", "second_test")
SMALL_CORPUS = [f"{part}.{side}" for part in PARTS for side in ("x", "y")]


def run_small_corpus(path, *arguments, status=0):
    """Runs small-corpus.sh with a PATH that begins with a folder; returns what it has done."""
    command = ["sh", EXAMPLES / "small-corpus.sh", *arguments]
    environment = os.environ | {"PATH": f"{path}:{os.environ['PATH']}"}
    done = subprocess.run(command, env=environment, text=True, capture_output=True)
    assert done.returncode == status, done.stderr
    return done


@pytest.fixture
def small_corpus(tmp_path):
    """Returns a folder of empty files and one of a tf-transformer that prints its arguments."""
    (tmp_path / "tf-transformer").write_text('#!/bin/sh\necho "$@"\n')
    (tmp_path / "tf-transformer").chmod(0o755)
    (tmp_path / "corpus").mkdir()
    for name in (*SMALL_CORPUS, "other.x"):
        (tmp_path / "corpus" / name).touch()
    return tmp_path


def check_commands(output, expected):
    """Parses the commands of an output, compares their names, and returns them with trainings."""
    commands = [line.split() for line in output.splitlines() if " -" in line]
    assert [command[0] for command in commands] == expected
    parsed = [make_parser().parse_args(command) for command in commands]
    trainings = [options for options, name in zip(parsed, expected, strict=True) if name == "train"]
    for options in trainings:
        config = make_config(read_settings(options.config, *map(parse_setting, options.set)))
        assert config.data.batch_tokens == 99
    assert config.transformer_config(50, 50).dropout_rate == 0.1
    return parsed, trainings


@pytest.mark.slow
def test_commands_of_the_recipe(small_corpus):
    """Each command that the script gives is valid, and a student is evaluated on each test set."""
    settings = ["--set", "data.batch_tokens=99"]
    where = [str(small_corpus / "corpus"), "x", "y", str(small_corpus / "out")]
    output = run_small_corpus(small_corpus, *where, *settings).stdout
    names = [*["train", "average"] * 2, *["distill", "train", "average"] * 2, *["evaluate"] * 3]
    parsed, trainings = check_commands(output, names)
    assert [options.seed for options in trainings] == [1, 2, 11, 21]
    folders = [options.model_dir for options in trainings]
    assert [options.init_from for options in trainings] == [None, None, folders[0], folders[2]]
    teachers = [options.teacher for options in parsed if hasattr(options, "teacher")]
    assert teachers == [[folders[:2]], [folders[:3]]]
    assert all(options.model_dir == [folders[3]] for options in parsed[-3:])
    tested = [pathlib.Path(options.source).stem for options in parsed[-3:]]
    assert tested == ["first_test", "second_test", "val"]
    assert output.startswith("== stage 1 of 7, teacher-1: 24 % of the work ==\n")


def test_commands_of_the_quick_recipe(small_corpus):
    options = ["--quick", "--tokenize", "none", "--set", "data.batch_tokens=99"]
    where = [str(small_corpus / "corpus"), "x", "y", str(small_corpus / "out")]
    output = run_small_corpus(small_corpus, *where, *options).stdout
    names = [*["train", "average", "distill"], *["train", "average"], *["evaluate"] * 3]
    parsed, trainings = check_commands(output, names)
    assert [options.steps for options in trainings] == [1500, 1200]
    assert trainings[1].init_from == trainings[0].model_dir
    assert {options.tokenize for options in parsed if hasattr(options, "tokenize")} == {"none"}


def test_the_time_left_of_the_recipe(small_corpus):
    """Stages that have ended are counted once, and one that was interrupted with all its times."""
    log = small_corpus / "out" / "seconds"
    log.parent.mkdir()
    log.write_text("teacher-1 1500 1500\ntext-1 0 50\ntext-1 450 60\n")
    where = [str(small_corpus / "corpus"), "x", "y", str(log.parent)]
    output = run_small_corpus(small_corpus, *where, "--quick").stdout
    # 1250 shares are left at 1610 seconds for 1950: 17.2 minutes.
    for stage in ("1 of 4, teacher-1: 46 %", "2 of 4, text-1: 14 %", "3 of 4, student-1: 37 %"):
        assert f"== stage {stage} of the work; about 0:17 hours for all that is left ==" in output
    assert [line.split()[:2] for line in log.read_text().splitlines()[3:]] == [
        ["student-1", "1200"],
        ["evaluation", "0"],
    ]


def test_usage_of_the_recipe(small_corpus):
    done = run_small_corpus(small_corpus, status=2)
    usage = "sh small-corpus.sh CORPUS SOURCE TARGET OUTPUT [--quick] [--tokenize T] [OPTION ...]"
    assert done.stderr == f"usage: {usage}\n"
    corpus, output = small_corpus / "corpus", small_corpus / "out"
    done = run_small_corpus(small_corpus, corpus, "x", "z", output, status=2)
    assert done.stderr == f"{corpus / 'train.z'}: expected a file\n"
    done = run_small_corpus(small_corpus, corpus, "x", "y", "--quick", status=2)
    assert done.stderr == "OUTPUT: expected a folder, got --quick\n"
    for value in (["moses"], []):  # before hours of training, not after
        words = [corpus, "x", "y", output, "--tokenize", *value]
        done = run_small_corpus(small_corpus, *words, status=2)
        found = "".join(value)
        expected = "13a, intl, zh, char or none"
        assert done.stderr == f"--tokenize '{found}': expected {expected}\n"
    assert not output.exists()


@pytest.mark.exhaustive
@pytest.mark.slow
def test_the_recipe_runs(corpus, tmp_path):
    for name in SMALL_CORPUS[:6]:
        kind, _, side = name.partition(".")
        part, language = "train" if kind == "train" else "validation", {"x": "en", "y": "de"}[side]
        shutil.copy(corpus.path(f"{part}.{language}"), tmp_path / name)
    settings = [f"{name}={value}" for name, value in SMALL_SETTINGS.items()]
    options = ["--steps", "6", "--checkpoint-every", "1", "--vocab-size", "400", "--set", *settings]
    where = [str(tmp_path), "x", "y", str(tmp_path / "out with spaces")]
    for _ in range(2):  # the second time there is nothing to do
        output = run_small_corpus(pathlib.Path(sys.executable).parent, *where, *options).stdout
        assert output.count("BLEU") == 2
