import zipfile

import numpy as np
import pytest

from tests.tf_transformer.formats.tensors.written import SIX, archive, npy
from tf_transformer.errors import InputError
from tf_transformer.formats.tensors import npz
from tf_transformer.formats.tensors.opening import open_tensors

ARRAYS = {
    "Wemb": np.linspace(-1, 1, 12, dtype="float32").reshape(3, 4),
    "special:model.yml": np.frombuffer(b"type: transformer\n\0", "int8"),
    "half": np.arange(5, dtype="float16"),
    "double": np.arange(4) / 3,
    "big_endian": np.arange(6, dtype=">f4").reshape(2, 3),
    "fortran": np.asfortranarray(np.arange(6, dtype="float32").reshape(2, 3)),
    "scalar": np.int64(-7),
    "empty": np.zeros((0, 3), "float32"),
    "flags": np.array([True, False]),
    "ids": np.arange(4, dtype=">u2"),
}


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_arrays_of_numpy(tmp_path, save):
    path = tmp_path / "model.npz"
    save(path, **ARRAYS)
    with open_tensors(path) as file:
        assert list(file) == list(ARRAYS)
        for name, array in ARRAYS.items():
            expected = array.astype("float32" if array.dtype.kind == "f" else array.dtype)
            assert file.shapes[name] == array.shape
            np.testing.assert_array_equal(file[name], expected)
            assert file[name].dtype == expected.dtype.newbyteorder("=")
            assert file[name].flags.c_contiguous


def test_double_beyond_float(tmp_path):
    np.savez(tmp_path / "model.npz", w=np.array([1e300, -1e300, 1.5]))
    with np.errstate(all="raise"):
        values = open_tensors(tmp_path / "model.npz")["w"]
    assert values.tolist() == [np.inf, -np.inf, 1.5]


@pytest.mark.parametrize("version", [1, 2, 3])
def test_versions_of_the_format(tmp_path, version):
    path = tmp_path / "model.npz"
    path.write_bytes(archive({"w.npy": npy("<f4", "(2, 3)", SIX.tobytes(), version=version)}))
    np.testing.assert_array_equal(open_tensors(path)["w"], SIX.reshape(2, 3))


GOOD = npy("<f4", "(6,)", SIX.tobytes())


@pytest.mark.parametrize(
    ("members", "message"),
    [
        ({"w.npy": npy("|O", "(6,)", SIX.tobytes())}, r"'w.npy': an array of type '\|O' is not"),
        ({"w.npy": npy("<U4", "(6,)", bytes(96))}, "an array of type '<U4' is not supported"),
        ({"w.npy": npy("<c8", "(6,)", bytes(48))}, "an array of type '<c8' is not supported"),
        ({"w.npy": npy("|V2", "(6,)", bytes(12))}, r"an array of type '\|V2' is not supported"),
        ({"w.npy": npy("f4", "(6,)", SIX.tobytes())}, "an array of type 'f4' is not supported"),
        ({"w.npy": npy("", "(6,)", SIX.tobytes())}, "an array of type '' is not supported"),
        ({"w.npy": npy([("a", "<f4")], "(6,)", SIX.tobytes())}, "other entries than .npy files"),
        ({"w.npy": npy("<f4", "6", SIX.tobytes())}, "other entries than .npy files"),
        ({"w.npy": npy("<f4", "(7,)", SIX.tobytes())}, "does not match the bytes of its values"),
        ({"w.npy": npy("<f4", "(5,)", SIX.tobytes())}, "does not match the bytes of its values"),
        ({"w.npy": npy("<f4", "(-6,)", SIX.tobytes())}, "integers from 0 on"),
        ({"w.npy": npy("<f4", "(6.0,)", SIX.tobytes())}, "integers from 0 on"),
        ({"w.npy": npy("<f4", "(2**70,)", SIX.tobytes())}, "the header of an array cannot be read"),
        ({"w.npy": npy("<f4", f"({2**70},)", SIX.tobytes())}, "too large"),
        ({"w.npy": npy("<f4", "(6,)}.__class__", b"")}, "the header of an array cannot be read"),
        ({"w.npy": npy("<f4", "(" * 5000, b"")}, "the header of an array cannot be read"),
        ({"w.npy": npy("<f4", "-" * 9000 + "1", b"")}, "the header of an array"),
        ({"w.npy": npy("<f4", f"(6,{' ' * 10_000})", SIX.tobytes())}, "cut off or too long"),
        ({"w.npy": GOOD[:50]}, "cut off or too long"),
        ({"w.npy": b"\x93NUMPY\x04" + GOOD[7:]}, "not a .npy file"),
        ({"w.npy": b""}, "not a .npy file"),
        ({"w.npy": GOOD, "code.py": b"print()"}, "an archive of .npy files, got the member 'code"),
        ({".npy": GOOD}, "not printable text: ''"),
        ({"a\x1b.npy": GOOD}, r"not printable text: 'a\\x1b'"),
    ],
)
def test_members_that_are_refused(tmp_path, members, message):
    path = tmp_path / "model.npz"
    path.write_bytes(archive(members))
    with pytest.raises(InputError, match=message) as error:
        open_tensors(path)
    assert str(error.value).startswith(f"{path}: ")
    assert "\n" not in str(error.value)


def test_objects_are_not_unpickled(tmp_path):
    path = tmp_path / "model.npz"
    np.savez(path, w=np.array([Touch(tmp_path / "touched")], object))
    with pytest.raises(InputError, match="is not supported"):
        open_tensors(path)
    assert not (tmp_path / "touched").exists()
    np.load(path, allow_pickle=True)["w"]
    assert (tmp_path / "touched").exists()


class Touch:
    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return type(self.path).touch, (self.path,)


def test_bomb_is_refused_before_it_is_inflated(tmp_path, monkeypatch):
    monkeypatch.setattr(npz, "_MIN_LIMIT_BYTES", 0)
    path = tmp_path / "model.npz"
    np.savez_compressed(path, w=np.zeros(10**6, "float32"))
    with pytest.raises(InputError, match=r"would inflate to 4,000,\d+ bytes; expected at most"):
        open_tensors(path)
    np.savez(path, w=np.zeros(10**4, "float32"))
    assert open_tensors(path).shapes == {"w": (10**4,)}


@pytest.mark.parametrize("difference", [-4, 4])
def test_member_of_another_size_than_declared(tmp_path, difference):
    """The directory and the header of the array agree; the deflated bytes do not."""
    values = bytes(10**6)
    member = npy("<f4", f"({(len(values) + difference) // 4},)", values)
    content = bytearray(archive({"w.npy": member}, zipfile.ZIP_DEFLATED))
    at = content.index(b"PK\1\2") + 24
    assert content[at : at + 4] == len(member).to_bytes(4, "little")
    content[at : at + 4] = (len(member) + difference).to_bytes(4, "little")
    path = tmp_path / "model.npz"
    path.write_bytes(content)
    file = open_tensors(path)
    with pytest.raises(InputError, match=r"'w.npy' is (damaged|larger than the archive declares)"):
        file["w"]


@pytest.mark.parametrize("compression", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_changed_values_are_found(tmp_path, compression):
    values = np.random.default_rng(0).normal(size=1000).astype("<f4").tobytes()
    content = bytearray(archive({"w.npy": npy("<f4", "(1000,)", values)}, compression))
    content[2000] ^= 1
    path = tmp_path / "model.npz"
    path.write_bytes(content)
    file = open_tensors(path)
    with pytest.raises(InputError, match=r"'w\.npy' is damaged"):
        file["w"]
