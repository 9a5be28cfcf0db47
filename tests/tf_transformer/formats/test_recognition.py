"""Files and folders whose format is not recognized: the message says what they are instead."""

import os

import pytest

from tf_transformer.formats.recognition import find_format

POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n"
CASES = {
    "a pointer": ("model.pt", POINTER, "model.pt: a pointer of Git LFS .* git lfs pull"),
    "a packed checkpoint": ("model.pt", b"\x1f\x8b\x08", "model.pt: compressed by gzip"),
    "a web page": ("config.json", b"\n<!DOCTYPE html>", "config.json: a web page"),
    "no JSON": ("config.json", b"{", r"config\.json: not JSON"),
    "nested JSON": ("config.json", b"[" * 100_000, "nested too deeply"),
    "another index": ("x.index", b"abc", "not recognized as a model of one of the formats"),
}


@pytest.mark.parametrize("case", CASES)
def test_folders(tmp_path, case):
    name, content, message = CASES[case]
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ValueError, match=message) as error:
        find_format(tmp_path)
    assert "\n" not in str(error.value)


def test_a_file(tmp_path):
    (tmp_path / "model.tar.bz2").write_bytes(b"BZh91AY")
    with pytest.raises(ValueError, match=r"model\.tar\.bz2: compressed by bzip2; unpack it"):
        find_format(tmp_path / "model.tar.bz2")


def test_a_pipe(tmp_path):
    os.mkfifo(tmp_path / "config.json")
    with pytest.raises(ValueError, match="expected a regular file, got a pipe"):
        find_format(tmp_path)


def test_several_models(tmp_path):
    for name in ("model.pt", "model_step_5.pt"):
        (tmp_path / name).write_bytes(b"")
    with pytest.raises(ValueError, match="or the file of a model instead of its folder"):
        find_format(tmp_path)
