"""The demonstration's stages fit together; how well it learns is measured by running it."""

import functools
import json
import re
import shlex
import sys

import pytest

from tf_transformer.__main__ import main, make_parser
from training.demo import demo
from training.demo.corpus import write_demonstration
from training.settings import make_config, parse_setting, read_settings

_write_small = functools.partial(
    write_demonstration, num_train=2000, num_validation=20, num_test=20
)


def _run_here(*command):
    """In place of `demo._run`: runs a command in this process, which has imported TensorFlow."""
    words = [str(word) for word in command]
    demo._print_command("tf-transformer", *words)
    assert main(words) == 0


@pytest.mark.slow
def test_goes_the_whole_way_and_ends_with_translations(
    unverified, untraced_training, tmp_path, monkeypatch, capfd
):
    monkeypatch.setattr(demo, "_STEPS", 4)
    small = ("model.d_model=32", "model.d_ff=32", "model.max_length=30")
    monkeypatch.setattr(demo, "_SETTINGS", (*demo._SETTINGS, *small))
    monkeypatch.setattr(demo, "_NUM_AVERAGED", 1)
    monkeypatch.setattr(demo, "_run", _run_here)
    monkeypatch.setattr(demo, "write_demonstration", _write_small)
    demo.run_demo(tmp_path)
    output = capfd.readouterr().out
    for command in ("train", "average", "evaluate", "export"):
        assert f"\n$ tf-transformer {command} " in output
    assert "BLEU" in output and "exact" in output and "tensorboard --logdir" in output
    sentences = (tmp_path / "data" / "test.en").read_text(encoding="utf-8").splitlines()[:5]
    program = str(tmp_path / "translate.py")
    _, _, shown = output.partition(f"\n$ python -I {program}\n")
    for line, sentence in zip(shown.splitlines()[:5], sentences, strict=True):
        assert line.startswith(f"{sentence} -> ")
    assert re.findall(r"^\[(\d)/6\] [A-Z]", output, re.MULTILINE) == list("123456")
    card = json.loads((tmp_path / "served" / "1" / "model.json").read_text())
    assert card["signatures"] == ["serving_default"]
    # The commands of the last lines can be typed as they are.
    *_, board, export, offer, web = output.splitlines()
    assert "http://localhost:8080" in offer
    assert web == f"$ tf-transformer web --model-dir {tmp_path / 'model'}"
    for command in (export, web):
        assert callable(make_parser().parse_args(shlex.split(command)[2:]).run)
    assert board == f"$ tensorboard --logdir {tmp_path / 'model' / 'logs'}"


def test_the_seed_is_of_corpus_and_training(tmp_path, monkeypatch):
    """And the same one of both, in a demonstration that ends before it trains."""
    commands = []

    def refuse(*command):
        commands.append(command)
        raise SystemExit(1)

    monkeypatch.setattr(demo, "_run", refuse)
    monkeypatch.setattr(demo, "write_demonstration", _write_small)
    texts = {}
    for seed in (1, 7):
        with pytest.raises(SystemExit):
            demo.run_demo(tmp_path / str(seed), seed)
        texts[seed] = (tmp_path / str(seed) / "data" / "train.en").read_bytes()
        assert commands[-1][commands[-1].index("--seed") + 1] == seed
    assert texts[1] != texts[7]


@pytest.mark.parametrize("is_found", [True, False])
def test_the_commands_to_try_are_found(is_found, tmp_path, monkeypatch, capsys):
    """`make demo` runs without an activated environment, where a shell finds no command."""
    script = tmp_path / ".venv" / "bin" / "activate"
    script.parent.mkdir(parents=True)
    script.touch()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "prefix", str(tmp_path / ".venv"))
    monkeypatch.setattr("shutil.which", lambda name: name if is_found else None)
    demo._print_activation()
    assert capsys.readouterr().out == ("" if is_found else "$ . .venv/bin/activate\n")


def test_it_replaces_no_text_of_others(tmp_path, monkeypatch):
    monkeypatch.setattr(demo, "write_demonstration", _write_small)
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "test.de").write_text("mine")
    with pytest.raises(ValueError, match=r"test.de is not the demonstration's text for this seed"):
        demo.run_demo(tmp_path)
    assert [path.name for path in (tmp_path / "data").iterdir()] == ["test.de"]
    assert (tmp_path / "data" / "test.de").read_text() == "mine"


def test_its_settings_are_settings():
    """A setting that has its default anyway is left out of what a newcomer reads."""
    settings = read_settings(None, *map(parse_setting, demo._SETTINGS))
    config = make_config(settings)
    model = config.transformer_config(8, 8)
    presets = make_config({}).transformer_config(8, 8)
    for section, values in settings.items():
        here, default = (
            (model, presets)
            if section == "model"
            else (getattr(config, section), getattr(make_config({}), section))
        )
        for name in values:
            assert getattr(here, name) != getattr(default, name), f"{section}.{name}"


@pytest.mark.slow
def test_a_failing_command_ends_the_demonstration(tmp_path):
    with pytest.raises(SystemExit) as exit:
        demo._run("average", "--model-dir", tmp_path, "--last", 1)
    assert exit.value.code == 2
