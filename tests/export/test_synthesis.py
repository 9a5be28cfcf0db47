"""Synthetic parallel text: what `distill` and `back-translate` write, and resuming them."""

import dataclasses
import json
import os
import signal
import subprocess
import sys
import time

import pytest
from sacrebleu.metrics import CHRF

from export.synthesis import distillation
from export.synthesis.distillation import Distillation
from export.synthesis.teacher import Teacher
from tests.serving_stub import Behaviour, serve
from tf_transformer import Translator
from tf_transformer.__main__ import main
from tf_transformer.text.text_file import TextFile


@pytest.fixture
def files(corpus, tmp_path):
    """30 pairs of a training text, one of them with a blank target."""
    paths = {}
    for side in ("en", "de"):
        lines = corpus.directory.joinpath(f"train.{side}").read_text(encoding="utf-8")
        lines = lines.splitlines()[:30]
        if side == "de":
            lines[4] = ""
        paths[side] = tmp_path / f"text.{side}"
        paths[side].write_text("\n".join(lines) + "\n", encoding="utf-8")
    return paths


@pytest.fixture(scope="module")
def translator(talkative):
    """Greedy search, as the commands of these tests."""
    return Translator.load(talkative, beam_size=1)


def read(path):
    return path.read_text(encoding="utf-8").splitlines()


def distill(files, output, *options):
    given = ["--source", str(files["en"]), "--target", str(files["de"]), "--output", str(output)]
    return main(["distill", *given, *map(str, options)])


@pytest.mark.slow
def test_distill_with_originals(files, talkative, translator, tmp_path, capsys):
    output = tmp_path / "out"
    assert distill(files, output, "--teacher", talkative, "--beam-size", 1) == 0
    translations = translator(read(files["en"]))
    expected = []
    for source, target, other in zip(*map(read, files.values()), translations, strict=True):
        expected += [(source, target)] if target else []
        expected += [(source, other)] if other != target and other.strip() else []
    found = list(zip(read(output / "train.source"), read(output / "train.target"), strict=True))
    assert found == expected
    assert f"{len(expected)} pairs; left out: " in capsys.readouterr().out
    # Translations that are not complete are not used.
    part = output / "teacher-1.target"
    part.write_text("".join(f"{x}\n" for x in translations[:-1]), encoding="utf-8")
    assert distill(files, output, "--teacher", talkative, "--beam-size", 1) == 2
    assert f"{part}: expected 30 lines, got 29; remove it" in capsys.readouterr().err
    part.unlink()
    assert distill(files, output, "--teacher", talkative, "--beam-size", 1) == 0
    assert list(zip(*(read(output / f"train.{s}") for s in ("source", "target")), strict=True)) == (
        expected
    )
    assert "teacher 1: 100%" in capsys.readouterr().err


@pytest.mark.exhaustive
@pytest.mark.slow
def test_several_teachers_in_both_directions(files, talkative, trained, tmp_path):
    """Two teachers, one of them an ensemble; the reverse one translates the target."""
    output = tmp_path / "out"
    teachers = ["--teacher", talkative, "--teacher", talkative, trained]
    reverse = ["--reverse-teacher", talkative]
    options = ["--only-synthetic", "--beam-size", 1]
    assert distill(files, output, *teachers, *reverse, *options) == 0
    sources, targets = map(read, files.values())
    loaded = Translator.load(talkative, beam_size=1)
    first, back = loaded(sources), loaded(targets)
    second = Translator.load([talkative, trained], beam_size=1)(sources)
    expected = []
    for row in zip(sources, targets, first, second, back, strict=True):
        source, target, one, two, reversed_source = row
        pairs = dict.fromkeys([(source, one), (source, two), (reversed_source, target)])
        expected += [pair for pair in pairs if all(side.strip() for side in pair)]
    assert list(zip(*(read(output / f"train.{s}") for s in ("source", "target")), strict=True)) == (
        expected
    )


@pytest.mark.representatives("chrf")
@pytest.mark.slow
@pytest.mark.parametrize("keep", ["bleu", "chrf"])
def test_the_translation_nearest_to_the_reference(files, talkative, tmp_path, keep):
    output = tmp_path / "out"
    options = ["--keep", keep, "--only-synthetic", "--beam-size", 3]
    assert distill(files, output, "--teacher", talkative, *options) == 0
    sources, targets = map(read, files.values())
    n_best = Translator.load(talkative, beam_size=3, num_best=3).n_best(sources)
    choose = distillation._chooser(keep, "13a")
    expected = [
        choose([translation.text for translation in best], target)
        for best, target in zip(n_best, targets, strict=True)
    ]
    assert read(output / "train.target") == [text for text in expected if text.strip()]
    assert expected != [best[0].text for best in n_best]


def test_the_chooser_is_sacrebleu():
    references = ["a small dog sleeps", "two men run"]
    candidates = [["a dog", "the small dog sleeps", "cats"], ["two men", "two men run", "men run"]]
    metric = CHRF()
    choose = distillation._chooser("chrf", "13a")
    for given, reference in zip(candidates, references, strict=True):
        scores = {text: metric.sentence_score(text, [reference]).score for text in given}
        assert choose(given, reference) == max(scores, key=scores.get) == given[1]
    assert distillation._chooser("best", "13a") is None
    # Words of Chinese are characters; by 13a the whole sentence is one.
    candidates, reference = ["猫在这里睡觉", "小狗在这里睡"], "小狗在那里睡觉"
    assert distillation._chooser("bleu", "zh")(candidates, reference) == candidates[1]
    assert distillation._chooser("bleu", "13a")(candidates, reference) == candidates[0]


@pytest.fixture
def address():
    with serve("rest", Behaviour()) as address:
        yield address


@pytest.mark.representatives("server")
@pytest.mark.slow
@pytest.mark.parametrize("teacher", ["server", "model", "back-translate"])
def test_killed_and_resumed(corpus, talkative, address, tmp_path, capsys, teacher):
    """The same files as without the interruption; what is killed is a process."""
    lines = corpus.directory.joinpath("train.en").read_text(encoding="utf-8")
    text = tmp_path / "text"
    text.write_text(lines * (20 if teacher == "server" else 2), encoding="utf-8")
    part = "teacher-1.target"
    if teacher == "back-translate":
        words = ["back-translate", "--model-dir", talkative, "--input", text, "--sample", "7"]
        part = "back.source"
    else:
        words = ["distill", "--teacher", address if teacher == "server" else talkative]
        words += ["--source", text, "--target", text]
    words = [sys.executable, "-m", "tf_transformer", *map(str, words)]
    folders = [tmp_path / name for name in ("whole", "killed")]
    assert main([*words[3:], "--output", str(folders[0])]) == 0
    state = folders[1] / f"{part}.partial.json"
    process = subprocess.Popen([*words, "--output", str(folders[1])], stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 200
    while not state.exists():
        assert time.monotonic() < deadline and process.poll() is None
        time.sleep(0.02)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    assert not (folders[1] / "train.source").exists()
    capsys.readouterr()
    assert main([*words[3:], "--output", str(folders[1])]) == 0
    assert "resuming after" in capsys.readouterr().err
    for name in ("train.source", "train.target", part):
        assert (folders[0] / name).read_bytes() == (folders[1] / name).read_bytes()


@pytest.mark.slow
def test_lines_beyond_the_limit_have_no_translation(files, talkative, tmp_path, capsys):
    """The translation of a part is none of the whole."""
    for path in files.values():
        lines = read(path)[:4]
        path.write_text("\n".join([*lines, "a lamp " * 60]) + "\n", encoding="utf-8")
    options = ("--teacher", talkative, "--only-synthetic")
    for search in (("--beam-size", 1), ("--beam-size", 3, "--keep", "chrf")):
        output = tmp_path / f"out-{len(search)}"
        assert distill(files, output, *options, *search) == 0
        assert "4 pairs; left out: 1 blank or too long" in capsys.readouterr().out
        assert read(output / "train.source") == read(files["en"])[:4]
    command = ["back-translate", "--model-dir", str(talkative), "--input", str(files["de"])]
    for search in (("--beam-size", "1"), ("--sample", "1")):
        output = tmp_path / search[0].strip("-")
        assert main([*command, "--output", str(output), *search]) == 0
        assert "left out: 1 blank or too long" in capsys.readouterr().out
        assert read(output / "train.target") == read(files["de"])[:4]


@pytest.mark.slow
def test_back_translate(files, talkative, translator, tmp_path, capsys):
    command = ["back-translate", "--model-dir", str(talkative), "--input", str(files["de"])]
    output = tmp_path / "best"
    assert main([*command, "--output", str(output), "--beam-size", "1"]) == 0
    targets = read(files["de"])
    sources = translator(targets)
    pairs = [(f"<bt> {x}", y) for x, y in zip(sources, targets, strict=True) if x.strip()]
    assert list(zip(*(read(output / f"train.{s}") for s in ("source", "target")), strict=True)) == (
        pairs
    )
    assert "1 blank or too long" in capsys.readouterr().out
    samples = []
    for seed in ("1", "1", "2"):
        output = tmp_path / f"sample-{len(samples)}"
        sampling = ["--sample", seed, "--temperature", "0.8", "--top-k", "20", "--tag", ""]
        assert main([*command, "--output", str(output), *sampling]) == 0
        samples.append(read(output / "train.source"))
    assert samples[0] == samples[1] != samples[2]
    assert not samples[0][0].startswith("<bt>")


@pytest.mark.slow
def test_equal_lines_are_sampled_differently(talkative, tmp_path):
    (tmp_path / "text").write_text("Ein Hund.\n" * 20)
    command = ["back-translate", "--model-dir", str(talkative), "--sample", "1"]
    files = ["--input", str(tmp_path / "text"), "--output", str(tmp_path / "out")]
    assert main([*command, *files]) == 0
    assert len(set(read(tmp_path / "out" / "train.source"))) > 5


@pytest.mark.slow
def test_another_request_is_refused(files, tmp_path, capsys, talkative):
    """Also where the former run is complete; nothing of it changes."""
    request = {"keep": "best"}
    folder = tmp_path / "out"
    folder.mkdir()
    record = {"format_version": 1, "request": request}
    (folder / "synthesis.json").write_text(json.dumps(record))
    (folder / "teacher-1.target").write_text("Ein Hund.\n")
    assert distill(files, folder, "--teacher", talkative) == 2
    assert f"{folder} was begun without beam_size" in capsys.readouterr().err
    assert json.loads((folder / "synthesis.json").read_text()) == record
    (folder / "synthesis.json").write_text("{}")
    assert distill(files, folder, "--teacher", talkative) == 2
    assert "synthesis.json: damaged" in capsys.readouterr().err


def test_a_run_without_results_does_not_keep_its_folder(files, tmp_path, capsys):
    """A server that lacks the task, then one that has it."""
    command = (files, tmp_path / "out", "--only-synthetic", "--teacher")
    with serve("rest", Behaviour(specs={"score": Behaviour().specs["serving_default"]})) as address:
        assert distill(*command, address) == 2
    assert "has no signature 'translate_options', which the option" in capsys.readouterr().err
    with serve("rest", Behaviour()) as address:
        assert distill(*command, address) == 0


def test_options_without_their_teacher(files, tmp_path, capsys, talkative):
    with serve("rest", Behaviour()) as address:
        for teacher, option, message in (
            (
                address,
                ("--dtype", "float32"),
                "--dtype is valid only with a teacher that is a model",
            ),
            (
                talkative,
                ("--model", "m"),
                "--model is valid only with a teacher that is a server's",
            ),
        ):
            assert distill(files, tmp_path / "out", "--teacher", teacher, *option) == 2
            assert message in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_a_server_may_be_asked_otherwise_when_a_run_is_resumed(files, tmp_path, capsys):
    """What is written does not depend on deadlines, but on the model."""
    with serve("rest", Behaviour()) as address:
        given = (files, tmp_path / "out", "--teacher", address, "--only-synthetic")
        assert distill(*given, "--max-batch-size", 4) == 0
        assert distill(*given, "--max-batch-size", 8, "--deadline", 90) == 0
        capsys.readouterr()
        assert distill(*given, "--model", "other") == 2
    assert "was begun with teachers " in capsys.readouterr().err


@pytest.mark.slow
def test_refuses(files, tmp_path, capsys, talkative):
    other = tmp_path / "other"
    other.mkdir()
    (other / "file").touch()
    reverse = ["back-translate", "--model-dir", str(talkative), "--input", str(files["de"])]
    reverse += ["--output", str(tmp_path / "out")]
    for words, message in (
        (["distill", *_pair(files), "--output", "x"], "at least one --teacher"),
        (
            ["distill", *_pair(files), "--output", str(other), "--teacher", str(talkative)],
            "expected a new or empty folder",
        ),
        (
            ["distill", *_pair(files), "--output", str(talkative), "--teacher", str(talkative)],
            "expected a new or empty folder",
        ),
        ([*reverse, "--top-k", "5"], "--top-k is valid only with --sample"),
        ([*reverse, "--sample", "-1"], "--sample -1: expected 0 to"),
        ([*reverse, "--sample", "1", "--temperature", "0"], "--temperature 0: expected more"),
        ([*reverse, "--sample", "1", "--top-k", "0"], "--top-k 0: expected at least 1"),
        ([*reverse, "--sample", "1", "--beam-size", "2"], "--beam-size is not valid with"),
        ([*reverse, "--tag", "a\nb"], "--tag 'a\\nb': expected"),
        ([*reverse, "--tag", " "], "--tag ' ': expected"),
        (
            ["distill", *_pair(files), "--output", "x", "--keep", "bleu", "--beam-size", "1"],
            "--keep bleu chooses among the hypotheses of the beam",
        ),
    ):
        assert main(words) == 2, words
        error = capsys.readouterr().err
        assert message in error and error.count("\n") == 1, error
    files["de"].write_text("one\n")
    assert main(["distill", *_pair(files), "--output", "x", "--teacher", str(talkative)]) == 2
    assert "the same number of lines" in capsys.readouterr().err


def _pair(files):
    return ["--source", str(files["en"]), "--target", str(files["de"])]


def test_requests_tell_teachers_and_options_apart(files):
    def request(*teachers, **changes):
        sides = TextFile(files["en"]), TextFile(files["de"])
        return Distillation(teachers, *sides, {"beam_size": 4}, **changes).request("digest")

    one, other = (Teacher(None, {"weights": name}) for name in ("one", "other"))
    requests = [
        request(one),
        request(other),
        request(one, other),
        request(dataclasses.replace(one, is_reverse=True)),
        request(dataclasses.replace(one, tags="<2de> ")),
        request(one, keep="bleu"),
        request(one, keep="bleu", tokenizer="zh"),
        request(one, has_originals=False),
        request(one, dtype="int8"),
    ]
    assert len({json.dumps(found) for found in requests}) == len(requests)
