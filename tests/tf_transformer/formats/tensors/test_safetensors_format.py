import json

import numpy as np
import pytest

from tests.tf_transformer.formats.tensors.written import array_entry, safetensors
from tf_transformer.errors import InputError
from tf_transformer.formats.tensors import safetensors_format
from tf_transformer.formats.tensors.opening import open_tensors

SIX = np.arange(6, dtype="<f4").tobytes()


def write(tmp_path, header, values=b""):
    path = tmp_path / "model.safetensors"
    path.write_bytes(safetensors(header, values))
    return path


@pytest.mark.parametrize(
    ("code", "dtype", "read"),
    [
        ("F32", "<f4", "float32"),
        ("F16", "<f2", "float32"),
        ("F64", "<f8", "float32"),
        ("I8", "i1", "int8"),
        ("I16", "<i2", "int16"),
        ("I32", "<i4", "int32"),
        ("I64", "<i8", "int64"),
        ("U8", "u1", "uint8"),
        ("U16", "<u2", "uint16"),
        ("U32", "<u4", "uint32"),
        ("U64", "<u8", "uint64"),
        ("BOOL", "?", "bool"),
    ],
)
def test_types(tmp_path, code, dtype, read):
    values = np.array([[0, 1, 2], [3, 4, 100]], dtype)
    path = write(tmp_path, {"w": array_entry(code, (2, 3), 0, values.nbytes)}, values.tobytes())
    with open_tensors(path) as file:
        assert file["w"].dtype == read
        np.testing.assert_array_equal(file["w"], values.astype(read))


def test_bfloat16(tmp_path):
    """Its bits are the upper half of a float32."""
    values = np.array([0.0, 1.0, -2.5, 3.140625, np.inf], "<f4")
    upper = (values.view("<u4") >> 16).astype("<u2").tobytes()
    file = open_tensors(write(tmp_path, {"w": array_entry("BF16", (5,), 0, 10)}, upper))
    assert file.dtypes == {"w": "bfloat16"}
    np.testing.assert_array_equal(file["w"], values)


def test_order_is_that_of_the_header(tmp_path):
    header = {
        "z": array_entry("F32", (2,), 16, 24),
        "a": array_entry("F32", (4,), 0, 16),
        "__metadata__": {"format": "pt"},
        "none": array_entry("F32", (3, 0), 24, 24),
        "scalar": array_entry("I64", (), 24, 32),
    }
    file = open_tensors(write(tmp_path, header, SIX + np.int64(7).tobytes()))
    assert list(file) == ["z", "a", "none", "scalar"]
    assert file.shapes == {"z": (2,), "a": (4,), "none": (3, 0), "scalar": ()}
    assert [file[name].tolist() for name in file] == [[4, 5], [0, 1, 2, 3], [[], [], []], 7]


FULL = array_entry("F32", (6,), 0, 24)


@pytest.mark.parametrize(
    ("header", "message"),
    [
        ({"w": FULL | {"dtype": "F8_E4M3"}}, "'w' is of type 'F8_E4M3'; supported are F16, BF16"),
        ({"w": FULL | {"dtype": 3}}, "expected dtype, shape and data_offsets of 'w'"),
        ({"w": {"dtype": "F32", "shape": [6]}}, "expected dtype, shape and data_offsets of 'w'"),
        ({"w": [1]}, "expected dtype, shape and data_offsets of 'w'"),
        ({"w": FULL | {"data_offsets": [0, 24, 24]}}, "expected dtype, shape and data_offsets"),
        ({"w": FULL | {"data_offsets": [0.0, 24]}}, "expected dtype, shape and data_offsets"),
        ({"w": FULL | {"shape": [7]}}, "the shape of 'w' does not match the bytes"),
        ({"w": FULL | {"shape": [-6]}}, "integers from 0 on"),
        ({"w": FULL | {"shape": [True, 6]}}, "integers from 0 on"),
        ({"w": FULL | {"shape": [6.0]}}, "integers from 0 on"),
        ({"w": FULL | {"shape": ["6"]}}, "integers from 0 on"),
        ({"w": FULL | {"shape": [1] * 33}}, "33 axes; at most 32"),
        ({"w": FULL | {"shape": [2**40, 2**40]}}, "too large"),
        ({"w": FULL | {"shape": [0, 2**62]}}, "too large"),
        ({"w": FULL | {"data_offsets": [-24, 0]}}, "does not match the bytes"),
        ({"w": FULL | {"data_offsets": [24, 0]}}, "does not match the bytes"),
        ({"w": FULL, "v": FULL}, "overlap, or have gaps"),
        ({"w": array_entry("F32", (5,), 4, 24)}, "overlap, or have gaps"),
        ({"w": array_entry("F32", (5,), 0, 20)}, "bytes, the file has"),
        ({"w": array_entry("F32", (7,), 0, 28)}, "bytes, the file has"),
        ({}, "bytes, the file has"),
        ({"w": FULL, "__metadata__": 3}, "expected an object as __metadata__, got 3"),
        ({"": FULL}, "not printable text: ''"),
        ({"a\nb": FULL}, r"not printable text: 'a\\nb'"),
        ({"a\ud800": FULL}, "not printable text"),
        ({"w" * 2000: FULL}, "not printable text"),
        (b'{"w": 1, "w": 2}', "its header: not JSON .the key 'w' is repeated"),
        (b'{"w": {"dtype": "F32", "dtype": "F32"}}', "the key 'dtype' is repeated"),
        (b'{"w": 1', "its header: not JSON"),
        (b'{"w": "\xff"}', "its header: not UTF-8"),
        (b"{" + b'"a":{' * 200_000, "nested too deeply"),
        (b'{"w": 1e400}', "its header: not JSON"),
    ],
)
def test_headers_that_are_refused(tmp_path, header, message):
    path = write(tmp_path, header, SIX)
    with pytest.raises(InputError, match=message) as error:
        open_tensors(path)
    assert str(error.value).startswith(f"{path}: ")
    assert "\n" not in str(error.value)


def test_header_that_is_too_large(tmp_path, monkeypatch):
    monkeypatch.setattr(safetensors_format, "_MAX_HEADER_BYTES", 20)
    with pytest.raises(InputError, match="a header of at most 20 bytes, got 6"):
        open_tensors(write(tmp_path, {"w": FULL}, SIX))


@pytest.mark.parametrize("size", [0, 2**31, 2**63, 2**64 - 1])
def test_size_of_the_header_that_is_wrong(tmp_path, size):
    content = safetensors({"w": FULL}, SIX)
    path = tmp_path / "model.safetensors"
    path.write_bytes(size.to_bytes(8, "little") + content[8:])
    with pytest.raises(InputError, match=r"expected|its header"):
        open_tensors(path)


def test_every_cut_is_refused(tmp_path):
    content = safetensors({"w": FULL}, SIX)
    path = tmp_path / "model.safetensors"
    for size in range(len(content)):
        path.write_bytes(content[:size])
        with pytest.raises(InputError):
            open_tensors(path)
    path.write_bytes(content + b"\0")
    with pytest.raises(InputError, match="bytes, the file has"):
        open_tensors(path)


def test_sparse_file(tmp_path):
    size = 2**34
    header = json.dumps({"w": array_entry("F32", (size // 4,), 0, size)}).encode()
    path = tmp_path / "model.safetensors"
    with open(path, "wb") as file:
        file.write(len(header).to_bytes(8, "little") + header)
        file.truncate(8 + len(header) + size)
    with pytest.raises(
        InputError, match="declares 17,179,869,184 bytes of values, the file stores"
    ):
        open_tensors(path)
