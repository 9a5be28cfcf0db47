"""PyTorch's two formats in files assembled by hand; `test_originals.py` has those of PyTorch."""

import struct
import zipfile

import numpy as np
import pytest

from tests.tf_transformer.formats.tensors.written import (
    MAGIC,
    NONE,
    SIX,
    archive,
    call,
    listing,
    mapping,
    name,
    number,
    numbers,
    pickled,
    sequence,
    storage,
    tensor,
    text,
    torch_legacy,
    torch_zip,
)
from tf_transformer.errors import InputError
from tf_transformer.formats.tensors import torch_format
from tf_transformer.formats.tensors.opening import open_tensors, read_torch_tree

FORMATS = {"zip": torch_zip, "legacy": torch_legacy}


@pytest.fixture(params=FORMATS)
def write(request, tmp_path):
    def write_file(value, *storages, **members):
        path = tmp_path / "model.bin"
        path.write_bytes(FORMATS[request.param](value, *storages, **members))
        return path

    write_file.format = request.param
    return write_file


@pytest.mark.parametrize(
    ("kind", "code"),
    [
        ("Float", "<f4"),
        ("Half", "<f2"),
        ("Double", "<f8"),
        ("Long", "<i8"),
        ("Int", "<i4"),
        ("Short", "<i2"),
        ("Char", "i1"),
        ("Byte", "u1"),
        ("Bool", "?"),
    ],
)
def test_types(write, kind, code):
    values = np.array([3, -2, 0, 7, 1, 5]).astype(code)
    stored = values if write.format == "legacy" else values.tobytes()
    value = mapping(w=tensor(kind=f"torch.{kind}Storage"))
    file = open_tensors(write(value, {"0": stored}))
    expected = values.astype("float32" if values.dtype.kind == "f" else values.dtype)
    np.testing.assert_array_equal(file["w"], expected.reshape(2, 3))
    assert file["w"].dtype == expected.dtype


@pytest.mark.parametrize(
    ("shape", "strides", "start"),
    [
        ((2, 3), (3, 1), 0),
        ((3, 2), (1, 3), 0),  # transposed
        ((2, 2), (3, 1), 1),  # columns 1 and 2
        ((3,), (2,), 1),  # every second
        ((), (), 5),
        ((1, 6), (99, 1), 0),  # the stride of an axis of size 1 can be any
        ((1, 6), (2**62, 1), 0),
        ((1, 1), (0, -5), 3),
        ((0, 7), (0, 0), 6),
        ((2, 2, 1), (2, 1, 0), 2),
        ((3, 2), (1, 1), 0),  # rows overlap
    ],
)
def test_views(write, shape, strides, start):
    file = open_tensors(write(mapping(w=tensor("0", shape, strides, start))))
    expected = np.zeros(shape, "float32")
    for index in np.ndindex(shape):
        offset = sum(at * stride for at, stride in zip(index, strides, strict=True))
        expected[index] = SIX[start + offset]
    np.testing.assert_array_equal(file["w"], expected)
    assert file["w"].flags.c_contiguous


@pytest.mark.parametrize(
    ("shape", "strides", "start", "message"),
    [
        ((2, 4), (4, 1), 0, "is outside of 6 values|is not inside its 6 values"),
        ((7,), (1,), 0, "6 values"),
        ((6,), (1,), 1, "6 values"),
        ((1,), (1,), 6, "6 values"),
        ((1,), (1,), -1, "6 values"),
        ((0,), (1,), 7, "6 values"),
        ((2, 3), (1, 5), 0, "6 values"),
        ((7, 1), (0, 1), 0, "expanded tensors and negative strides"),
        ((6,), (0,), 0, "expanded tensors and negative strides"),
        ((6,), (-1,), 5, "expanded tensors and negative strides"),
        ((4, 2), (1, 1), 0, "6 values"),  # inside, but more than the storage has
        ((2, 2**62 // 2), (1, 1), 0, "too large|6 values"),
        ((2,), (2**62,), 0, "6 values"),
        ((2, 3), (1,), 0, "an integer for each axis"),
        ((-2, -3), (3, 1), 0, "integers from 0 on"),
    ],
)
def test_views_that_are_refused(write, shape, strides, start, message):
    path = write(mapping(w=tensor("0", shape, strides, start)))
    with pytest.raises(InputError, match=message):
        open_tensors(path)


def rebuilt(*arguments: bytes) -> bytes:
    return call("torch._utils._rebuild_tensor_v2", *arguments)


PLAIN = (number(0), numbers(2, 3), numbers(3, 1), b"\x89", b"}")


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (rebuilt(storage("0", 6)), "the description of a tensor"),
        (rebuilt(number(1), *PLAIN), "the description of a tensor"),
        (rebuilt(storage("0", 6), *PLAIN, mapping(conj=b"\x88")), "conjugated or negated"),
        (rebuilt(storage("0", 6), number(0), sequence(text("a")), numbers(1)), "integers from 0"),
        (
            rebuilt(storage("0", 6), number(0), sequence(b"\x88"), numbers(1)),
            "integers from 0 on",
        ),
        (
            rebuilt(storage("0", 6), number(0), numbers(2), sequence(text("a"))),
            "an integer for each axis",
        ),
        (call("torch._utils._rebuild_parameter", number(1)), "the description of a parameter"),
        (call("torch._utils._rebuild_qtensor", storage("0", 6)), "a quantized tensor .torch._uti"),
        (call("torch._utils._rebuild_sparse_tensor", number(1)), "a sparse tensor"),
        (call("torch._utils._rebuild_meta_tensor_no_storage"), "a tensor without values"),
        (tensor(kind="torch.ComplexFloatStorage"), "contains torch.ComplexFloatStorage, which is"),
        (tensor(kind="torch.QInt8Storage"), "contains torch.QInt8Storage, which is not a tensor"),
        (tensor(kind="collections.OrderedDict"), "contains values of collections.OrderedDict"),
        (storage("0", 6), "contains a Storage that is not part of a tensor"),
        (storage("0", -6), "size or key of storage '0'"),
        (storage("0" * 101, 6), "size or key of storage '000"),
        (sequence(text("storage")) + b"Q", "the description of a storage"),
        (sequence(text("module"), *[NONE] * 4) + b"Q", "the description of a storage"),
        (number(3) + b"Q", "the description of a storage, 3"),
        (text("0") + b"Q", "the description of a storage, '0'"),
        (
            storage("0", 6, "torch.FloatStorage", sequence(text("0"), number(0), number(6))),
            "the de",
        ),
        (storage("0", 6, "torch.FloatStorage", NONE, NONE), "the description of a storage"),
        (
            listing(tensor(), tensor(kind="torch.IntStorage")),
            "storage '0' has two types or sizes",
        ),
        (
            listing(tensor(size=6), tensor(size=7)),
            "storage '0' (has two|are missing or)|incomplete",
        ),
        (tensor(size=7), "the values of storage '0' are (missing or )?incomplete"),
        (tensor("1"), "storage '1' are missing|the list of storages is not that of the tensors"),
    ],
)
def test_tensors_that_are_refused(write, value, message):
    path = write(mapping(w=value))
    with pytest.raises(InputError, match=message) as error:
        open_tensors(path)
    assert str(error.value).startswith(f"{path}: ")
    assert "\n" not in str(error.value)


def test_persistent_ids_of_six_entries(tmp_path):
    """The older format has a sixth, None."""
    path = tmp_path / "model.bin"
    value = rebuilt(storage("0", 6, "torch.FloatStorage", NONE), *PLAIN)
    path.write_bytes(torch_legacy(mapping(w=value)))
    np.testing.assert_array_equal(open_tensors(path)["w"], SIX.reshape(2, 3))


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (tensor(), "expected a dict of tensors, got StoredTensor"),
        (listing(tensor()), "expected a dict of tensors, got list"),
        (mapping(w=tensor(), model=mapping(w=tensor())), "but 'model' is of type dict"),
        (b"}(" + number(0) + tensor() + b"u", "but 0 is of type StoredTensor"),
        (mapping(**{"a\n": tensor()}), r"not printable text: 'a\\n'"),
        (mapping(**{"\ud800": tensor()}), "not printable text"),
    ],
)
def test_roots_that_are_no_state_dict(write, value, message):
    with pytest.raises(InputError, match=message):
        open_tensors(write(value))


def test_tensors_share_a_storage(write):
    file = open_tensors(write(mapping(a=tensor(), b=tensor("0", (6,)), c=tensor("0", (2,)))))
    assert file.shapes == {"a": (2, 3), "b": (6,), "c": (2,)}
    np.testing.assert_array_equal(file["b"], SIX)
    np.testing.assert_array_equal(file["c"], SIX[:2])


def test_the_same_values_under_many_names(tmp_path):
    """A small file must not pass for a large one."""
    values = np.zeros(10_000, "<f4")
    shared = tensor("0", (10_000,), size=10_000) + b"q\0"
    for count, is_refused in ((7, False), (20, True)):
        names = mapping(a=shared, **{f"a{index}": b"h\0" for index in range(count - 1)})
        path = tmp_path / "model.bin"
        path.write_bytes(torch_legacy(names, {"0": values}))
        if is_refused:
            with pytest.raises(InputError, match="the same values more than 8 times"):
                open_tensors(path)
        else:
            assert len(open_tensors(path)) == count


def test_every_cut_is_refused(write):
    path = write(mapping(w=tensor()))
    content = path.read_bytes()
    for size in range(len(content)):
        path.write_bytes(content[:size])
        with pytest.raises(InputError):
            open_tensors(path)


def test_size_of_the_pickle(write, monkeypatch):
    monkeypatch.setattr(torch_format, "MAX_PICKLE_BYTES", 100)
    with pytest.raises(InputError, match=r"at most 100 bytes|ends early at byte 100"):
        open_tensors(write(mapping(w=tensor())))


# ---- The ZIP format ----


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (torch_zip(mapping(w=tensor()), byteorder=b"big"), "written on a big-endian machine"),
        (torch_zip(mapping(w=tensor()), byteorder=b"little-x"), "big-endian"),
        (torch_zip(mapping(w=tensor()), **{"code/a.py": b""}), "contains a TorchScript program"),
        (torch_zip(mapping(w=tensor()), **{"x/data.pkl": b""}), "contains a TorchScript program"),
        (
            archive({"m/data.pkl": bytes(1000), "m/data/0": b""}, zipfile.ZIP_DEFLATED),
            "members are compressed",
        ),
        (
            archive({"data.pkl": b""}),
            "expected an archive of .npy files, got the member 'data.pkl'",
        ),
        (archive({"m/data.pkl": b""}), "cut off"),
    ],
)
def test_archives_that_are_refused(tmp_path, content, message):
    path = tmp_path / "model.bin"
    path.write_bytes(content)
    with pytest.raises(InputError, match=message):
        open_tensors(path)


def test_little_endian_is_said(tmp_path):
    path = tmp_path / "model.bin"
    path.write_bytes(torch_zip(mapping(w=tensor()), byteorder=b"little"))
    np.testing.assert_array_equal(open_tensors(path)["w"], SIX.reshape(2, 3))


def test_sparse_storage(tmp_path):
    size = 2**30
    begin = torch_legacy(mapping(w=tensor("0", (size // 4,), size=size // 4)), {"0": SIX[:0]})
    path = tmp_path / "model.bin"
    with open(path, "wb") as file:
        file.write(begin[:-8] + struct.pack("<q", size // 4))
        file.truncate(len(begin) + size)
    with pytest.raises(InputError, match="declares 1,073,741,824 bytes of values, the file stores"):
        open_tensors(path)


# ---- The format before PyTorch 1.6 ----


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (
            MAGIC.replace(number(1001), number(1002)),
            "expected version 1001 of PyTorch's format, got 1002",
        ),
        (MAGIC + pickled(b"}") * 2 + pickled(b"}"), "the list of storages"),
        (MAGIC + pickled(b"}") * 2 + pickled(listing(number(0))), "the list of storages"),
        (MAGIC + pickled(b"}") * 2 + pickled(listing(text("0"))), "not that of the tensors"),
        (MAGIC + pickled(name("os.system")), "contains os.system, which is not"),
        (
            torch_legacy(mapping(w=tensor()), {"0": SIX, "1": SIX}),
            "the list of storages is not that of the tensors",
        ),
        (
            torch_legacy(mapping(w=tensor()), {"0": SIX}).replace(
                pickled(listing(text("0"))), pickled(listing(text("0"), text("0")))
            ),
            "the list of storages is not that of the tensors",
        ),
        (torch_legacy(mapping(w=tensor()), {"0": SIX[:5]}), "storage '0' are incomplete"),
        (torch_legacy(mapping(w=tensor()))[:-1], "cut off: expected"),
    ],
)
def test_sequences_that_are_refused(tmp_path, content, message):
    path = tmp_path / "model.bin"
    path.write_bytes(content)
    with pytest.raises(InputError, match=message):
        read_torch_tree(path)
