"""The demonstration's stages fit together; how well it learns is measured by running it."""

import functools

import pytest

from training.demo import demo
from training.demo.corpus import write_demonstration


@pytest.mark.slow
def test_goes_the_whole_way_and_ends_with_translations(tmp_path, monkeypatch, capfd):
    monkeypatch.setattr(demo, "_STEPS", 4)
    monkeypatch.setattr(demo, "_NUM_AVERAGED", 1)
    small = functools.partial(write_demonstration, num_train=2000, num_validation=20, num_test=20)
    monkeypatch.setattr(demo, "write_demonstration", small)
    demo.run_demo(tmp_path)
    output = capfd.readouterr().out
    for command in ("train", "average", "evaluate", "export"):
        assert f"\n$ tf-transformer {command} " in output
    assert "BLEU" in output and "exact" in output and "tensorboard --logdir" in output
    sentences = (tmp_path / "data" / "test.en").read_text(encoding="utf-8").splitlines()[:5]
    for line, sentence in zip(output.splitlines()[-5:], sentences, strict=True):
        assert line.startswith(f"{sentence} -> ")
    assert (tmp_path / "served" / "1" / "saved_model.pb").exists()


def test_a_failing_command_ends_the_demonstration(tmp_path):
    with pytest.raises(SystemExit) as exit:
        demo._run("average", "--model-dir", tmp_path, "--last", 1)
    assert exit.value.code == 2
