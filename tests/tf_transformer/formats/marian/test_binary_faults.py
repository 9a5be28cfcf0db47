"""Damaged, foreign and malicious binary models of Marian: one line, status 2, and no files."""

import gzip
import os
import struct
import tracemalloc

import numpy as np
import pytest

from tests.tf_transformer.formats.marian.binary_files import (
    Item,
    as_binary,
    model_items,
    plain,
    quantized,
)
from tests.tf_transformer.formats.marian.firefox_folder import MODEL, student, write_firefox
from tf_transformer.__main__ import main
from tf_transformer.errors import InputError
from tf_transformer.formats.import_model import import_model
from tf_transformer.formats.marian.binary_model import read_binary_model
from tf_transformer.formats.marian.reader import Marian
from tf_transformer.formats.tensors.stored_file import StoredFile, naming

MATRIX = "encoder_l1_self_Wq"
VALUES = np.linspace(-1, 1, 1024, dtype="float32").reshape(32, 32)
LFS = b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n"


def items():
    return model_items(student(True)[0], "browsermt")


def content():
    return as_binary(items())


def with_item(item):
    """The model with another item of this name."""
    return lambda: as_binary([*(x for x in items() if x.name != item.name), item])


def matrix(**changes):
    return with_item(quantized(MATRIX, VALUES)._replace(**changes))


def header(index, field, value):
    """The model with another number in the header of an item."""

    def edit():
        changed = bytearray(content())
        struct.pack_into("<Q", changed, 16 + 32 * index + 8 * field, value)
        return changed

    return edit


def put(position, value):
    def edit():
        changed = bytearray(content())
        struct.pack_into("<Q", changed, position, value)
        return changed

    return edit


def scale(value):
    return matrix(content=bytes(1024) + struct.pack("<f", value))


FAULTS = {
    "empty": (lambda: b"", "expected a binary model of Marian, version 1; this is another file"),
    "a pointer": (lambda: LFS, "version 1; this is a pointer of Git LFS"),
    "compressed": (lambda: b"\x1f\x8b\x08" + bytes(99), "this is compressed by gzip; unpack it"),
    "another version": (put(0, 7), "expected a binary model of Marian, version 1; this is another"),
    "encrypted": (put(0, 2), "an encrypted model of Marian is not supported"),
    "cut off": (lambda: content()[:-1], "bytes, the file has"),
    "cut in the header": (lambda: content()[:1000], "declares 77 items, but is a file of 1,000"),
    "longer": (lambda: content() + b"1", "bytes, the file has"),
    "no items": (put(8, 0), "declares 0 items"),
    "many items": (put(8, 2**60), "declares 1,152,921,504,606,846,976 items"),
    "a long name": (header(3, 0, 2**63), "expected a name at byte"),
    "no name": (header(0, 0, 0), "expected a name at byte"),
    "a name without an end": (header(0, 0, 9), "expected a name at byte"),
    "many axes": (header(0, 2, 2**62), "an item has 4,611,686,018,427,387,904 axes; expected 1"),
    "no axes": (header(0, 2, 0), "an item has 0 axes; expected 1 to 4"),
    "many bytes": (header(0, 3, 2**62), "does not match the bytes of its values"),
    "bytes twice": (header(0, 3, 4096), "does not match the bytes of its values"),
    "an unknown type": (header(5, 1, 0x4104), "is of the unknown type 0x4104"),
    "a huge type": (header(5, 1, 2**63), "is of the unknown type 0x8000000000000000"),
    "a negative shape": (matrix(shape=(-32, -32)), "must be integers from 0 on"),
    "a huge shape": (matrix(shape=(2**31 - 1,) * 4), "the shape of a tensor is too large"),
    "no values": (matrix(shape=(0, 32), content=bytes(4)), "the matrix 'enc.*' has no values"),
    "no scale": (matrix(content=bytes(1024)), "does not match the bytes of its values"),
    "a scale of 0": (scale(0.0), "expected a positive scale of a matrix, got 0"),
    "a negative scale": (scale(-1.0), "expected a positive scale of a matrix, got -1"),
    "no number": (scale(float("nan")), "expected a positive scale of a matrix, got nan"),
    "a tiny scale": (
        matrix(content=b"\1" * 1024 + struct.pack("<f", 1e-40)),
        "1,024 of the 3,072 numbers .* are NaN or infinite",
    ),
    "an item twice": (
        lambda: as_binary([*items(), quantized(MATRIX, VALUES)]),
        f"the item '{MATRIX}' occurs twice",
    ),
    "a name with a line end": (
        with_item(plain("two\nlines", np.zeros((1, 99), "float32"))),
        "expected a name at byte",
    ),
    "another layout": (
        matrix(type=0x11001),
        f"'{MATRIX}' is of type intgemm8avx2, in the layout of one kind of CPU; expected a file",
    ),
    "packed": (matrix(type=0x802), "is of type packed16, in the layout of one kind of CPU"),
    "integers without a scale": (
        with_item(plain(MATRIX, VALUES.astype("int8"))),
        f"{MATRIX} is of type int8; only floating-point weights are supported",
    ),
    "another shape": (
        with_item(quantized(MATRIX, VALUES.reshape(16, 64))),
        f"{MATRIX}: expected parts of equal height",
    ),
    "no settings": (
        lambda: as_binary(items()[:-1]),
        "no array special:model.yml; expected a model of Marian",
    ),
    "a superfluous weight": (
        with_item(plain("Wpos", np.zeros((9, 32), "float32"))),
        "no weights for Wpos",
    ),
}


def check_refused(path, target, message, capsys):
    with pytest.raises(InputError, match=message):
        import_model(path, target, "marian")
    arguments = ["--input", str(path), "--model-dir", str(target), "--format", "marian"]
    assert main(["import", *arguments]) == 2
    captured = capsys.readouterr()
    (line,) = captured.err.splitlines()
    assert str(path) in line and captured.out == ""
    assert not target.exists()


@pytest.mark.parametrize("fault", FAULTS)
def test_faults(fault, tmp_path, capsys):
    edit, message = FAULTS[fault]
    write_firefox(tmp_path / "theirs")
    (tmp_path / "theirs" / MODEL).write_bytes(edit())
    check_refused(tmp_path / "theirs" / MODEL, tmp_path / "ours", message, capsys)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["theirs"]


def test_a_file_of_holes(tmp_path):
    """Values that are not stored, which a sparse file has without end."""
    write_firefox(tmp_path / "theirs")
    path = tmp_path / "theirs" / MODEL
    num_values = 2**28
    big = Item("big", 0x404, (1, num_values), b"")
    changed = bytearray(as_binary([*items(), big]))
    struct.pack_into("<Q", changed, 16 + 32 * len(items()) + 24, 4 * num_values)
    path.write_bytes(changed)
    os.truncate(path, len(changed) + 4 * num_values)
    with pytest.raises(InputError, match=r"bytes of values, the file stores"):
        Marian().read(path)


def test_folders(tmp_path):
    """What is a model of no format is described."""
    for name, data, message in (
        (MODEL, LFS, "a pointer of Git LFS"),
        (f"{MODEL}.gz", LFS, "a pointer of Git LFS"),
        (f"{MODEL}.gz", gzip.compress(b"text"), "compressed by gzip"),
    ):
        folder = tmp_path / str(len(list(tmp_path.iterdir())))
        folder.mkdir()
        (folder / name).write_bytes(data)
        with pytest.raises(InputError, match=message):
            import_model(folder, tmp_path / "ours")
    assert not (tmp_path / "ours").exists()


PACKED = {
    "cut off": (lambda packed: packed[:-20], "damaged, or cut off: gzip cannot unpack it"),
    "damaged": (lambda packed: packed[:500] + b"\0" * 99 + packed[600:], "gzip cannot unpack it"),
    "a bomb": (
        lambda packed: packed + gzip.compress(bytes(2**22)),
        "unpacks to more than .* bytes; expected at most 8 times its size",
    ),
}


@pytest.mark.parametrize("fault", PACKED)
def test_compressed_files(fault, tmp_path, capsys):
    edit, message = PACKED[fault]
    write_firefox(tmp_path / "theirs")
    packed = gzip.compress((tmp_path / "theirs" / MODEL).read_bytes())
    (tmp_path / "theirs" / MODEL).unlink()
    (tmp_path / "theirs" / f"{MODEL}.gz").write_bytes(edit(packed))
    check_refused(tmp_path / "theirs", tmp_path / "ours", message, capsys)


def peak_memory(path):
    """The most bytes that reading a file takes, and whether it is refused."""
    tracemalloc.start()
    try:
        with naming(path):
            file = StoredFile(path)
            for tensor in read_binary_model(file).values():
                tensor.read()
        is_refused = False
    except InputError:
        is_refused = True
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak, is_refused


@pytest.mark.slow
def test_fuzzed_headers_never_need_much_memory(tmp_path):
    """Wrong bytes among the numbers, names and shapes: refused, or other values."""
    path = tmp_path / "model.bin"
    original = content()
    begin = 16 + 32 * len(items())
    end = begin + sum(len(item.name) + 1 + 4 * len(item.shape) for item in items())
    random = np.random.default_rng(1)
    refused = 0
    for _ in range(300):
        changed = bytearray(original)
        region = random.choice([16, begin, end + 8])
        for position in random.integers(0, region, random.integers(1, 4)):
            changed[position] = random.choice([0, 1, 127, 255, random.integers(256)])
        path.write_bytes(changed)
        peak, is_refused = peak_memory(path)
        refused += is_refused
        assert peak < 8 * len(original)
    assert 100 < refused < 300


@pytest.mark.slow
def test_a_file_of_headers_needs_little_memory(tmp_path):
    """As many items as are accepted, each as small as it can be."""
    path = tmp_path / "model.bin"
    small = [Item(f"{number:x}", 0x404, (1, 1, 1, 1), bytes(4)) for number in range(3000)]
    path.write_bytes(as_binary(small))
    peak, is_refused = peak_memory(path)
    assert is_refused and peak < path.stat().st_size
    filler = Item("filler", 0x101, (450_000,), bytes(450_000))
    path.write_bytes(as_binary([*small, filler]))
    peak, is_refused = peak_memory(path)
    assert not is_refused and peak < 8 * path.stat().st_size
