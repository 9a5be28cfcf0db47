"""What is written and removed in a folder that came from elsewhere: never through a link."""

import os
import pathlib

import pytest

from tf_transformer.storage.files import remove_leftovers
from tf_transformer.storage.own_files import (
    check_own_file,
    check_own_folder,
    make_own_folder,
    replacing_own,
)
from tf_transformer.storage.regular_files import stored_bytes
from tf_transformer.storage.score_log import append_score
from tf_transformer.storage.weights_file import write_arrays


@pytest.fixture
def other(tmp_path) -> pathlib.Path:
    """A file of the user's that has nothing to do with the folder."""
    path = tmp_path / "other"
    path.write_text("precious\n")
    return path


@pytest.fixture
def received(tmp_path) -> pathlib.Path:
    path = tmp_path / "received"
    path.mkdir()
    return path


def write_text(path):
    with replacing_own(path) as temporary:
        temporary.write_text("x")


@pytest.mark.parametrize(
    "write",
    [
        write_text,
        check_own_file,
        check_own_folder,
        make_own_folder,
        lambda path: write_arrays(path, {}, []),
        lambda path: append_score(path.parent, {"bleu": 1.0}),
    ],
)
@pytest.mark.parametrize("target", ["../other", "../missing", "../folder"])
def test_nothing_is_written_through_a_link(received, other, write, target):
    (received.parent / "folder").mkdir()
    link = received / "scores.jsonl"
    link.symlink_to(target)
    with pytest.raises(ValueError, match=r"scores.jsonl: expected a .*got a "):
        write(link)
    assert other.read_text() == "precious\n"
    assert os.readlink(link) == target
    assert not (received.parent / "missing").exists()
    assert os.listdir(received.parent / "folder") == []


def test_the_link_is_named_with_what_it_leads_to(received):
    (received / "a").symlink_to("/else\nwhere")
    message = r"received/a: expected .*, got a symbolic link to '/else\\nwhere', which commands"
    with pytest.raises(ValueError, match=message):
        check_own_file(received / "a")


def test_links_below_a_folder(received, other):
    (received / "logs" / "training").mkdir(parents=True)
    check_own_folder(received / "logs")
    for link, target in ((received / "logs/training/x", other), (received / "logs/y", "/")):
        link.symlink_to(target)
        with pytest.raises(ValueError, match=rf"{link}: expected .* symbolic link"):
            check_own_folder(received / "logs")
        link.unlink()
    os.mkfifo(received / "logs" / "training" / "events")
    with pytest.raises(ValueError, match=r"events: expected a regular file, got a pipe"):
        check_own_folder(received / "logs")


def test_what_is_no_regular_file_is_not_written(received):
    os.mkfifo(received / "pipe")
    (received / "folder").mkdir()
    for name, kind in (("pipe", "a pipe"), ("folder", "a folder")):
        with pytest.raises(ValueError, match=rf"{name}: expected a regular file, got {kind}"):
            write_text(received / name)
    write_text(received / "new")
    write_text(received / "new")
    check_own_folder(received / "nowhere")
    with pytest.raises(ValueError, match="new: expected a folder"):
        check_own_folder(received / "new")


def test_the_folder_itself_may_be_a_link(received, tmp_path):
    (tmp_path / "mine").symlink_to(received)
    write_text(tmp_path / "mine" / "file")
    assert (received / "file").read_text() == "x"


def test_leftovers_are_only_what_has_their_name(received, other):
    """No process has such a number; the others are no numbers of processes."""
    (received / ".writing-999999999.x").symlink_to(other)
    names = {
        f".writing-{'9' * 30}.x",
        ".writing-1\N{SUPERSCRIPT TWO}.x",
        ".writing-5x",
        ".writing-",
    }
    for name in names:
        (received / name).touch()
    remove_leftovers(received)
    assert set(os.listdir(received)) == names
    assert other.read_text() == "precious\n"


def test_stored_bytes(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"x" * 100_000)
    assert stored_bytes(path) == 100_000
    path.write_bytes(b"")
    assert stored_bytes(path) == 0
    with open(path, "wb") as file:
        file.truncate(2**40)
        if stored_bytes(path):
            pytest.skip("this file system does not tell holes from zeros")
        file.seek(2**30)
        file.write(b"x" * 1000)
    assert 1000 <= stored_bytes(path) < 2**20
