"""What a full disk, a stop or a lost file may cost: nothing that was written before."""

import contextlib
import errno
import hashlib
import json
import os
import pathlib
import resource
import shutil
import signal
import subprocess
import sys
import time

import pytest

from tests.conftest import SMALL_SETTINGS
from tf_transformer.__main__ import main
from tf_transformer.storage.files import (
    check_folder,
    check_writable,
    locked,
    remove_leftovers,
    replacing,
)

COMMAND = [sys.executable, "-m", "tf_transformer"]
SETTINGS = ["--set", *(f"{name}={value}" for name, value in SMALL_SETTINGS.items())]


def contents(directory):
    return {
        path.relative_to(directory): hashlib.sha1(path.read_bytes()).hexdigest()
        for path in directory.rglob("*")
        if path.is_file()
    }


@pytest.fixture
def model_dir(trained, tmp_path):
    return pathlib.Path(shutil.copytree(trained, tmp_path / "model"))


@contextlib.contextmanager
def little_disk(limit):
    """Lets this process write no files beyond a size."""
    former = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, former[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, former)


@pytest.mark.slow
def test_average_on_a_full_disk(model_dir, capsys):
    before = contents(model_dir)
    arguments = ["average", "--model-dir", str(model_dir), "--last", "2"]
    with little_disk(50_000):
        assert main(arguments) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert "model.weights.h5: file too large" in error
    assert contents(model_dir) == before


@pytest.mark.slow
def test_export_on_a_full_disk(model_dir, tmp_path, capsys):
    output = tmp_path / "served"
    arguments = ["export", "--model-dir", str(model_dir), "--output", str(output)]
    arguments += ["--signatures", "tokens", "--beam-size", "1"]
    with little_disk(100_000):
        assert main(arguments) == 2
    last = capsys.readouterr().err.splitlines()[-1]
    assert last.startswith(f"tf-transformer: error: {output}: ") and "ile too large" in last
    assert "{{" not in last and "[Op" not in last
    assert list(output.iterdir()) == []


@pytest.mark.exhaustive
@pytest.mark.slow
@pytest.mark.parametrize("form", ["ctranslate2", "keras-hub", "litert"])
def test_convert_on_a_full_disk(model_dir, tmp_path, capsys, form):
    arguments = ["convert", "--model-dir", str(model_dir), "--to", form]
    with little_disk(20_000):
        assert main([*arguments, "--output", str(tmp_path / "out")]) == 2
    assert "ile too large" in capsys.readouterr().err.splitlines()[-1]
    assert os.listdir(tmp_path) == ["model"]


# Checkpoints


@pytest.mark.slow
def test_training_finds_its_checkpoints_without_the_list(corpus, model_dir, capsys):
    """TensorFlow's list of checkpoints is not needed to go on from the newest."""
    (model_dir / "checkpoints" / "checkpoint").write_text("garbage")
    before = contents(model_dir / "checkpoints")
    before.pop(pathlib.Path("checkpoint"), None)
    steps = ["--steps", "40"]
    settings = [setting for setting in SETTINGS if not setting.startswith("optimization.steps")]
    arguments = ["train", *corpus.options, "--model-dir", str(model_dir), *steps, *settings]
    assert main(arguments) == 0
    assert "Trained for 40 steps" in capsys.readouterr().out
    after = contents(model_dir / "checkpoints")
    assert before.items() <= after.items()
    assert pathlib.Path("step-40.index") in after


@pytest.mark.slow
def test_training_again_keeps_the_average(corpus, model_dir):
    """Nothing is left to train, so nothing is written over."""
    assert main(["average", "--model-dir", str(model_dir), "--last", "2"]) == 0
    averaged = (model_dir / "model.weights.h5").read_bytes()
    assert main(["train", *corpus.options, "--model-dir", str(model_dir), *SETTINGS]) == 0
    assert (model_dir / "model.weights.h5").read_bytes() == averaged


@pytest.mark.parametrize("text", ["{", "[]", "{}"])
def test_damaged_description_of_the_run(corpus, model_dir, text, capsys):
    (model_dir / "training.json").write_text(text)
    assert main(["train", *corpus.options, "--model-dir", str(model_dir), *SETTINGS]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert "training.json: damaged" in error


# Outputs


def test_replacing_follows_links(tmp_path):
    real, link = tmp_path / "real", tmp_path / "link"
    real.write_text("old")
    link.symlink_to(real)
    with replacing(link) as path:
        path.write_text("new")
    assert link.is_symlink()
    assert real.read_text() == "new"
    assert sorted(os.listdir(tmp_path)) == ["link", "real"]


def test_replacing_names_nothing_that_is_not_on_the_disk(tmp_path, monkeypatch):
    """As far as power may fail at any moment."""
    calls = []
    for name in ("fsync", "replace"):
        real = getattr(os, name)
        monkeypatch.setattr(os, name, lambda *a, n=name, r=real: (calls.append(n), r(*a)))
    with replacing(tmp_path / "file") as path:
        path.write_text("x")
    assert calls == ["fsync", "replace"]


def test_replacing_leaves_devices_alone():
    with replacing(pathlib.Path("/dev/null")) as path:
        path.write_text("gone")
    assert pathlib.Path("/dev/null").is_char_device()


@pytest.mark.slow
def test_errors_of_writing_to_devices_name_them(tmp_path, capsys):
    with (
        pytest.raises(OSError, match="No space left on device: '/dev/full'"),
        replacing(pathlib.Path("/dev/full")) as path,
    ):
        path.write_text("x")
    assert main(["runs", str(tmp_path), "--json", "/dev/full"]) == 2
    (tmp_path / "full.png").symlink_to("/dev/full")
    assert main(["picture", "masks", "--output", str(tmp_path / "full.png")]) == 2
    first, second = capsys.readouterr().err.splitlines()
    assert first == "tf-transformer: error: /dev/full: no space left on device"
    assert second == f"tf-transformer: error: {tmp_path}/full.png: no space left on device"


def test_replacing_keeps_what_an_error_says(tmp_path):
    """Where it is not the system's, there is nothing to name."""
    with pytest.raises(OSError, match=r"^broken$"), replacing(tmp_path / "file"):
        raise OSError("broken")


def test_replacing_names_the_file_in_its_errors(tmp_path):
    def write(path, error):
        with replacing(path):
            raise error

    path = tmp_path / "file"
    path.write_text("old")
    with pytest.raises(OSError, match=rf"No space left on device: '{path}'"):
        write(path, OSError(errno.ENOSPC, "No space left on device"))
    assert path.read_text() == "old"


def test_what_cannot_be_written_is_known_before(tmp_path):
    with pytest.raises(OSError, match="no/x: there is no folder"):
        check_writable(tmp_path / "no" / "x")
    with pytest.raises(OSError, match="is a directory"):
        check_writable(tmp_path)
    check_writable(tmp_path / "new")
    check_writable(pathlib.Path("/dev/null"))
    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises(OSError, match=r"Too many levels of symbolic links: .*loop"):
        check_writable(tmp_path / "loop")
    (tmp_path / "dangling").symlink_to(tmp_path / "no" / "x")
    with pytest.raises(OSError, match=r"dangling: there is no folder .*no"):
        check_writable(tmp_path / "dangling")
    (tmp_path / "old").write_text("x")
    with pytest.raises(OSError, match=r"Not a directory: .*old/x"):
        check_writable(tmp_path / "old" / "x")


def test_a_file_is_replaced_only_where_its_folder_is_writable(tmp_path, monkeypatch):
    """As its successor is written beside it."""
    (tmp_path / "old").write_text("x")
    monkeypatch.setattr(os, "access", lambda path, mode: path != tmp_path)
    with pytest.raises(OSError, match="old: not writable"):
        check_writable(tmp_path / "old")


@pytest.mark.parametrize("name", ["new", "old/new"])
def test_folders_that_cannot_be_made_are_known_before(tmp_path, name):
    check_folder(tmp_path / name)
    assert not (tmp_path / name).exists()
    (tmp_path / "old").write_text("x")
    with pytest.raises(OSError, match="old: expected a folder"):
        check_folder(tmp_path / "old" / name)


@pytest.mark.parametrize("command", ["translate", "evaluate"])
def test_a_loop_of_links_is_no_output(command, model_dir, tmp_path, capsys):
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "text").write_text("x\n")
    options = ["--input"] if command == "translate" else ["--reference", str(tmp_path / "text")]
    options += ["--source"] if command == "evaluate" else []
    options += [str(tmp_path / "text"), "--output", str(tmp_path / "loop")]
    assert main([command, "--model-dir", str(model_dir), *options]) == 2
    expected = f"tf-transformer: error: {tmp_path}/loop: too many levels of symbolic links\n"
    assert capsys.readouterr().err == expected


@pytest.mark.parametrize("option", ["--output", "--json"])
def test_evaluate_looks_at_its_outputs_first(option, model_dir, tmp_path, capsys):
    text = tmp_path / "text"
    text.write_text("a\n")
    arguments = ["--model-dir", str(model_dir), "--source", str(text), "--reference", str(text)]
    started = time.monotonic()
    assert main(["evaluate", *arguments, option, str(tmp_path / "no" / "x")]) == 2
    assert time.monotonic() - started < 1
    assert "there is no folder" in capsys.readouterr().err


def test_leftovers_of_dead_processes_go(tmp_path):
    dead = subprocess.Popen(["true"])
    dead.wait()
    (tmp_path / f".writing-{dead.pid}.model.weights.h5").write_text("half")
    (tmp_path / f".writing-{dead.pid}").mkdir()
    alive = tmp_path / f".writing-{os.getpid()}.x"
    alive.write_text("being written")
    (tmp_path / ".notes").write_text("somebody's")
    remove_leftovers(tmp_path)
    assert sorted(os.listdir(tmp_path)) == [".notes", alive.name]


def test_translate_never_writes_over_its_input(model_dir, tmp_path, capsys):
    text = tmp_path / "text"
    text.write_text("one\n")
    arguments = ["--model-dir", str(model_dir), "--input", str(text), "--output", str(text)]
    assert main(["translate", *arguments]) == 2
    assert "is the input" in capsys.readouterr().err
    assert text.read_text() == "one\n"
    os.link(text, tmp_path / "same")
    assert main(["translate", *arguments[:-1], str(tmp_path / "same")]) == 2
    assert "is the input" in capsys.readouterr().err


@pytest.mark.slow
def test_translate_never_reads_what_it_writes(model_dir, tmp_path, capsys):
    """What grows beside an output, or what standard output is appended to."""
    text = tmp_path / "text.partial"
    text.write_text("one\n")
    arguments = ["translate", "--model-dir", str(model_dir)]
    output = ["--input", str(text), "--output", str(tmp_path / "text")]
    assert main([*arguments, *output]) == 2
    assert "text is the input" in capsys.readouterr().err
    with text.open("rb") as read, text.open("ab") as appended:
        done = subprocess.run(
            [*COMMAND, *arguments], stdin=read, stdout=appended, stderr=subprocess.PIPE
        )
    assert done.returncode == 2 and b"standard output is the input" in done.stderr
    assert text.read_text() == "one\n"


@pytest.mark.slow
def test_stopped_translation_keeps_the_former_file(model_dir, tmp_path):
    text, output = tmp_path / "text", tmp_path / "output"
    text.write_text("two dogs at 3 o'clock on Monday\n" * 20_000)
    output.write_text("former")
    arguments = ["--model-dir", str(model_dir), "--input", str(text), "--output", str(output)]
    process = subprocess.Popen(
        [*COMMAND, "translate", "--beam-size", "1", *arguments],
        stderr=subprocess.PIPE,
        # A shell's background jobs ignore it, and hand that down.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    partial = tmp_path / "output.partial"
    while not (partial.exists() and partial.stat().st_size):
        assert process.poll() is None
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    process.communicate()
    assert process.returncode == 130
    assert output.read_text() == "former"
    assert partial.read_text().count("\n") >= 1


@pytest.mark.exhaustive
@pytest.mark.slow
def test_translate_reads_gzip(model_dir, tmp_path):
    import gzip

    plain, packed = tmp_path / "text", tmp_path / "text.gz"
    plain.write_text("one\n\ntwo\n")
    packed.write_bytes(gzip.compress(plain.read_bytes()))
    outputs = []
    for source in (plain, packed):
        output = tmp_path / f"{source.name}.out"
        arguments = ["--model-dir", str(model_dir), "--input", str(source)]
        assert main(["translate", *arguments, "--output", str(output)]) == 0
        outputs.append(output.read_text())
    assert outputs[0] == outputs[1]
    assert outputs[0].count("\n") == 3
    packed.write_bytes(packed.read_bytes()[:-9])
    assert main(["translate", *arguments]) == 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["train", "--set", "a=[1"], "--set a=[1: not YAML"),
        (["translate", "--n-best", "0"], "--n-best 0: expected at least 1"),
    ],
)
def test_bad_options(corpus, model_dir, arguments, message, capsys):
    more = corpus.options if arguments[0] == "train" else []
    command = [arguments[0], *more, "--model-dir", str(model_dir), *arguments[1:]]
    assert main(command) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert message in error


def test_memory_that_does_not_suffice(model_dir, capsys):
    path = model_dir / "config.json"
    description = json.loads(path.read_text())
    description["model"] |= {"d_model": 4_000_000_000, "num_heads": 1}
    path.write_text(json.dumps(description))
    text = ["--input", str(path)]
    assert main(["translate", "--model-dir", str(model_dir), *text]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_one_process_at_a_time_has_a_folder(tmp_path):
    (tmp_path / "other").mkdir()
    with locked(tmp_path, "at work"):
        with (
            pytest.raises(ValueError, match="another process is at work"),
            locked(tmp_path, "at work"),
        ):
            pass
        with locked(tmp_path / "other", "at work"):
            pass
    with locked(tmp_path, "at work"):
        pass
