import json
import os

import numpy as np
import pytest

from tests.tf_transformer.formats.tensors.written import (
    SIX,
    array_entry,
    mapping,
    safetensors,
    tensor,
    torch_legacy,
    torch_zip,
)
from tf_transformer.errors import InputError
from tf_transformer.formats.tensors import sharded
from tf_transformer.formats.tensors.opening import open_tensors


@pytest.fixture
def folder(tmp_path):
    """A folder with three files of one tensor each, in three formats."""
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "a.safetensors").write_bytes(
        safetensors({"a": array_entry("F32", (6,), 0, 24)}, SIX.tobytes())
    )
    (folder / "b.bin").write_bytes(torch_zip(mapping(b=tensor())))
    (folder / "c.bin").write_bytes(torch_legacy(mapping(c=tensor())))
    return folder


def write_index(folder, weight_map):
    path = folder / "model.safetensors.index.json"
    path.write_text(json.dumps({"metadata": {"total_size": 72}, "weight_map": weight_map}))
    return path


GOOD = {"c": "c.bin", "a": "a.safetensors", "b": "b.bin"}


def test_tensors_of_several_files(folder):
    with open_tensors(write_index(folder, GOOD)) as file:
        assert file.shapes == {"c": (2, 3), "a": (6,), "b": (2, 3)}
        assert list(file) == ["c", "a", "b"]
        for name, values in file.items():
            np.testing.assert_array_equal(values.ravel(), SIX, err_msg=name)


@pytest.mark.parametrize(
    "name",
    [
        *("../model/b.bin", "./b.bin", "/etc/passwd", "sub/b.bin", "..", ".", "", "a\\b", "c:b"),
        *("b.bin\n", "b\0.bin", 3, None, ["b.bin"]),
    ],
)
def test_names_of_files_that_are_refused(folder, name):
    (folder / "sub").mkdir()
    (folder / "sub" / "b.bin").write_bytes((folder / "b.bin").read_bytes())
    path = write_index(folder, GOOD | {"b": name})
    with pytest.raises(InputError, match="the name of a file in the same folder, got") as error:
        open_tensors(path)
    assert str(error.value).startswith(f"{path}: ")
    assert "\n" not in str(error.value)


def test_links(folder, tmp_path):
    path = write_index(folder, GOOD)
    (folder / "b.bin").rename(folder / "elsewhere")
    (folder / "b.bin").symlink_to("elsewhere")
    assert open_tensors(path)["b"].shape == (2, 3)
    (tmp_path / "outside").write_bytes((folder / "b.bin").read_bytes())
    (folder / "b.bin").unlink()
    (folder / "b.bin").symlink_to("../outside")
    with pytest.raises(InputError, match=r"'b\.bin' is a link to another folder"):
        open_tensors(path)
    (folder / "b.bin").unlink()
    (folder / "b.bin").symlink_to("b.bin")
    with pytest.raises(OSError, match="symbolic links"):
        open_tensors(path)


def test_cache_of_a_model_hub(folder, tmp_path):
    """There all files of a snapshot are links to files that are named after their digests."""
    write_index(folder, GOOD)
    blobs, snapshot = tmp_path / "blobs", tmp_path / "snapshots" / "revision"
    folder.rename(blobs)
    snapshot.mkdir(parents=True)
    for number, file in enumerate(sorted(blobs.iterdir())):
        file.rename(blobs / str(number))
        (snapshot / file.name).symlink_to(f"../../blobs/{number}")
    assert open_tensors(snapshot / "model.safetensors.index.json")["b"].shape == (2, 3)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"{}", "expected JSON with a weight_map"),
        (b'{"weight_map": {}}', "expected JSON with a weight_map"),
        (b'{"weight_map": ["a"]}', "expected JSON with a weight_map"),
        (
            b'  {"weight_map": {"a": "b.bin", "a": "c.bin"}}',
            "the index: not JSON .the key 'a' is r",
        ),
        (b'{"weight_map"', "the index: not JSON"),
        (b"{" * 100_000, "the index: not JSON"),
    ],
)
def test_indexes_that_are_refused(folder, content, message):
    path = folder / "model.index.json"
    path.write_bytes(content)
    with pytest.raises(InputError, match=message) as error:
        open_tensors(path)
    assert str(error.value).startswith(f"{path}: ")


def test_index_and_files_differ(folder):
    with pytest.raises(InputError, match=r"'d' of 'a\.safetensors' is missing in the file"):
        open_tensors(write_index(folder, GOOD | {"d": "a.safetensors"}))
    with pytest.raises(InputError, match=r"'a' of 'a\.safetensors' is missing in the index"):
        open_tensors(write_index(folder, {"d": "a.safetensors"} | GOOD | {"a": "c.bin"}))
    (folder / "b.bin").unlink()
    with pytest.raises(FileNotFoundError, match=r"b\.bin"):
        open_tensors(write_index(folder, GOOD))


def test_file_that_is_itself_an_index(folder):
    path = write_index(folder, {"a": "model.safetensors.index.json"})
    with pytest.raises(InputError, match="expected safetensors, a file that torch"):
        open_tensors(path)


def test_damaged_file_is_named(folder):
    (folder / "b.bin").write_bytes(b"PK\3\4" + bytes(100))
    with pytest.raises(InputError, match="no directory") as error:
        open_tensors(write_index(folder, GOOD))
    assert str(error.value).startswith(f"{folder / 'b.bin'}: ")


def test_pipe_among_the_files(folder):
    (folder / "b.bin").unlink()
    os.mkfifo(folder / "b.bin")
    with pytest.raises(InputError, match="expected a regular file, got a pipe"):
        open_tensors(write_index(folder, GOOD))


@pytest.mark.parametrize(
    ("limit", "message"), [("_MAX_FILES", "2 files"), ("_MAX_INDEX_BYTES", "2 b")]
)
def test_too_large(folder, monkeypatch, limit, message):
    monkeypatch.setattr(sharded, limit, 2)
    with pytest.raises(InputError, match=f"at most {message}"):
        open_tensors(write_index(folder, GOOD))
