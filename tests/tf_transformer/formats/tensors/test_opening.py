import os
import subprocess
import sys
import tracemalloc

import numpy as np
import pytest

from tests.tf_transformer.formats.tensors.written import (
    SIX,
    archive,
    array_entry,
    mapping,
    npy,
    safetensors,
    tensor,
    torch_legacy,
    torch_zip,
)
from tf_transformer.errors import InputError
from tf_transformer.formats.tensors.opening import open_tensors, read_torch_tree

FORMATS = {
    "safetensors": safetensors({"w": array_entry("F32", (2, 3), 0, 24)}, SIX.tobytes()),
    "torch_zip": torch_zip(mapping(w=tensor())),
    "torch_legacy": torch_legacy(mapping(w=tensor())),
    "npz": archive({"w.npy": npy("<f4", "(2, 3)", SIX.tobytes())}),
}


@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.parametrize("name", ["w.bin", "w.safetensors", "w.npz", "w"])
def test_recognized_by_content(tmp_path, kind, name):
    (tmp_path / name).write_bytes(FORMATS[kind])
    with open_tensors(tmp_path / name) as file:
        assert file.path == tmp_path / name
        assert (list(file), len(file)) == (["w"], 1)
        assert (file.shapes, file.dtypes) == ({"w": (2, 3)}, {"w": "float32"})
        np.testing.assert_array_equal(file["w"], SIX.reshape(2, 3))
        assert "w" in file
        assert "v" not in file
        with pytest.raises(KeyError, match="v"):
            file["v"]


def test_size_of_a_header_that_looks_like_json(tmp_path):
    """The header's size is the first byte, `{`."""
    header = b'{"w":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]}}'.ljust(ord("{"))
    content = safetensors(header, SIX.tobytes())
    assert content[:1] == b"{"
    (tmp_path / "w").write_bytes(content)
    assert open_tensors(tmp_path / "w").shapes == {"w": (2, 3)}


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\0",
        b"text\n",
        b"\x80\x04N.",
        b"\x1f\x8b\x08",
        b"\x93NUMPY\1\0",
        b"\x89HDF\r\n\x1a\n",
        b"8",
    ],
)
def test_other_files(tmp_path, content):
    path = tmp_path / "w"
    path.write_bytes(content)
    with pytest.raises(InputError, match="expected safetensors, a file that torch"):
        open_tensors(path)
    with pytest.raises(InputError, match=r"w: expected a file that torch\.save wrote$"):
        read_torch_tree(path)


def test_trees_of_other_formats(tmp_path):
    for kind in ("safetensors", "npz"):
        (tmp_path / "w").write_bytes(FORMATS[kind])
        with pytest.raises(InputError, match=r"expected a file that torch\.save wrote"):
            read_torch_tree(tmp_path / "w")


def test_files_that_are_not_regular(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for function in (open_tensors, read_torch_tree):
        with pytest.raises(InputError, match="pipe: expected a regular file, got a pipe"):
            function(tmp_path / "pipe")
        with pytest.raises(InputError, match="expected a regular file, got a folder"):
            function(tmp_path)
        with pytest.raises(InputError, match="expected a regular file, got a device"):
            function(tmp_path / ".." / ".." / ".." / ".." / ".." / "dev" / "zero")
        with pytest.raises(FileNotFoundError, match="none"):
            function(tmp_path / "none")


@pytest.mark.parametrize("kind", FORMATS)
def test_files_are_closed(tmp_path, kind):
    (tmp_path / "w").write_bytes(FORMATS[kind])
    open_files = len(os.listdir("/proc/self/fd"))
    with open_tensors(tmp_path / "w") as file:
        assert len(os.listdir("/proc/self/fd")) == open_files + 1
    assert len(os.listdir("/proc/self/fd")) == open_files
    with pytest.raises(ValueError, match="closed file"):
        file["w"]
    file = open_tensors(tmp_path / "w")
    del file
    assert len(os.listdir("/proc/self/fd")) == open_files
    (tmp_path / "w").write_bytes(FORMATS[kind][:-1])
    with pytest.raises(InputError):
        open_tensors(tmp_path / "w")
    assert len(os.listdir("/proc/self/fd")) == open_files


COUNT = 2**18


def write_large(folder, kind, dtype="<f4"):
    """Writes 8 tensors of `COUNT` values; the first value of each is its number."""
    values = np.zeros((8, COUNT), dtype)
    values[:, 0] = range(8)
    path, names = folder / "large.npz", [f"w{index}" for index in range(8)]
    if kind == "safetensors":
        size = COUNT * values.itemsize
        code = {"<f4": "F32", "<f2": "F16"}[dtype]
        header = {
            name: array_entry(code, (COUNT,), index * size, (index + 1) * size)
            for index, name in enumerate(names)
        }
        path.write_bytes(safetensors(header, values.tobytes()))
    elif kind == "npz":
        np.savez_compressed(path, **dict(zip(names, values, strict=True)))
    else:
        storage = {"<f4": "torch.FloatStorage", "<f2": "torch.HalfStorage"}[dtype]
        tensors = {
            name: tensor("0", (COUNT,), (1,), index * COUNT, 8 * COUNT, storage)
            for index, name in enumerate(names)
        }
        if kind == "torch_zip":
            path.write_bytes(torch_zip(mapping(**tensors), {"0": values.tobytes()}))
        else:
            path.write_bytes(torch_legacy(mapping(**tensors), {"0": values}))
    return path


@pytest.mark.parametrize("kind", ["safetensors", "torch_zip", "torch_legacy"])
def test_file_that_becomes_shorter(tmp_path, kind):
    path = write_large(tmp_path, kind)
    file = open_tensors(path)
    os.truncate(path, 3 * COUNT)
    with pytest.raises(InputError, match=r"large.npz: the file became shorter while it was read"):
        file["w1"]


@pytest.mark.parametrize("dtype", ["<f4", "<f2"])
@pytest.mark.parametrize("kind", FORMATS)
def test_memory_for_one_tensor(tmp_path, kind, dtype):
    path = write_large(tmp_path, kind, dtype)
    tracemalloc.start()
    try:
        with open_tensors(path) as file:
            assert [file[name][0] for name in file] == [*range(8)]
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    one = 4 * COUNT
    converted = one // 2 if dtype == "<f2" else 0
    assert one <= peak < one + converted + 400_000


def test_importing_needs_neither_torch_nor_tensorflow():
    program = (
        "import sys, tf_transformer.formats.tensors.opening\n"
        "print(*{name.partition('.')[0] for name in sys.modules})"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=100, check=True
    )
    imported = set(done.stdout.split())
    assert "numpy" in imported
    assert not {"torch", "tensorflow", "keras", "safetensors"} & imported
