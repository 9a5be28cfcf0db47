import struct
import zipfile
import zlib

import pytest

from tests.tf_transformer.formats.tensors.written import archive
from tf_transformer.formats.tensors import zip_archive
from tf_transformer.formats.tensors.stored_file import FormatError, StoredFile
from tf_transformer.formats.tensors.zip_archive import inflate, read_directory

FILES = {"a": b"first", "folder/b": bytes(10_000), "c": b"", "ü": b"last" * 1000}


@pytest.fixture
def stored(tmp_path):
    def write(content: bytes) -> StoredFile:
        (tmp_path / "a.zip").write_bytes(content)
        return StoredFile(tmp_path / "a.zip")

    return write


@pytest.mark.parametrize("compression", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_members(stored, compression):
    file = stored(archive(FILES, compression))
    members = read_directory(file)
    assert list(members) == list(FILES)
    for name, expected in FILES.items():
        assert b"".join(inflate(file, members[name])) == expected
        assert b"".join(inflate(file, members[name], 7)) == expected[:7]
        assert members[name].stored == (compression == zipfile.ZIP_STORED)


@pytest.mark.parametrize("size", [1, 7, 4096, 2**20 - 1, 2**20, 2**20 + 1, 3 * 2**20])
@pytest.mark.parametrize("byte", [b"a", b"ab" * 5])
def test_sizes_around_the_chunks(stored, size, byte):
    expected = (byte * size)[:size]
    file = stored(archive({"a": expected}, zipfile.ZIP_DEFLATED))
    assert b"".join(inflate(file, read_directory(file)["a"])) == expected


def test_large_numbers_in_the_extra_field(stored):
    """An archive of ZIP64, as PyTorch and NumPy write for large tensors."""
    name, values = b"w", b"values"
    local = struct.pack("<4s5H3L2H", b"PK\3\4", 45, 0, 0, 0, 0, 0, 2**32 - 1, 2**32 - 1, 1, 20)
    local += name + struct.pack("<2H2Q", 1, 16, 6, 6) + values
    extra = struct.pack("<2HB", 7, 1, 0) + struct.pack("<2H3Q", 1, 24, 6, 6, 0)
    crc, none = zlib.crc32(values), 2**32 - 1
    entry = struct.pack(
        "<4s6H3L5H2L",
        b"PK\1\2",
        45,
        45,
        0,
        0,
        0,
        0,
        crc,
        none,
        none,
        1,
        len(extra),
        0,
        0,
        0,
        0,
        none,
    )
    entry += name + extra
    end = len(local) + len(entry)
    record = struct.pack("<4sQ2H2L4Q", b"PK\6\6", 44, 45, 45, 0, 0, 1, 1, len(entry), len(local))
    locator = struct.pack("<4sLQL", b"PK\6\7", 0, end, 1)
    last = struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, 2**16 - 1, 2**16 - 1, none, none, 0)
    content = local + entry + record + locator + last
    file = stored(content)
    assert b"".join(inflate(file, read_directory(file)["w"])) == values
    for at in (end, end + 56):
        damaged = bytearray(content)
        damaged[at] = 0
        with pytest.raises(FormatError, match="the directory of the ZIP archive is not found"):
            read_directory(stored(damaged))


def changed(mark: bytes, offset: int, value: bytes, nth: int = 0) -> bytes:
    """An archive of two members with other bytes after the nth occurrence of a mark."""
    content = bytearray(archive({"aa": b"first", "bb": b"other"}))
    at = -1
    for _ in range(nth + 1):
        at = content.index(mark, at + 1)
    content[at + offset : at + offset + len(value)] = value
    return bytes(content)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"PK\3\4", "too early"),
        (changed(b"PK\5\6", 0, b"xx"), "no directory is at the end"),
        (changed(b"PK\5\6", 20, b"\1"), "no directory is at the end"),
        (changed(b"PK\5\6", 0, b"")[:-1], "no directory is at the end"),
        (changed(b"PK\5\6", 10, struct.pack("<H", 3)), "cut off"),
        (changed(b"PK\5\6", 12, struct.pack("<L", 20)), "cut off"),
        (changed(b"PK\5\6", 12, struct.pack("<L", 2**31)), "outside of it"),
        (changed(b"PK\5\6", 16, struct.pack("<L", 2**31)), "outside of it"),
        (changed(b"PK\5\6", 16, struct.pack("<L", 2**32 - 1)), "too early"),
        (changed(b"PK\1\2", 0, b"xx"), "cut off"),
        (changed(b"PK\1\2", 8, b"\1\0"), "'aa' is encrypted, or compressed by an unknown method"),
        (changed(b"PK\1\2", 10, b"\x0c\0"), "'aa' is encrypted, or compressed by an unknown"),
        (changed(b"PK\1\2", 20, b"\4\0"), "the sizes or the header of 'aa' are wrong"),
        (changed(b"PK\1\2", 28, b"\xff\xff"), "cut off"),
        (changed(b"PK\1\2", 46, b"xx"), "'xx' has another name in its header"),
        (changed(b"PK\1\2", 46, b"\xff\xff"), "not UTF-8"),
        (changed(b"PK\1\2", 42, struct.pack("<L", 2**30)), "too early"),
        (changed(b"PK\1\2", 42, struct.pack("<L", 2**32 - 1)), "too early"),
        (changed(b"PK\1\2", 42, struct.pack("<L", 1)), "the sizes or the header of 'aa' are wrong"),
        (changed(b"PK\1\2", 20, struct.pack("<2L", 30, 30)), "overlap"),
        (changed(b"PK\1\2", 20, struct.pack("<2L", 99, 99), nth=1), "overlaps its directory"),
        (changed(b"PK\1\2", 20, struct.pack("<2L", 2**31, 2**31), nth=1), "overlaps"),
    ],
)
def test_damaged_archives(stored, content, message):
    with pytest.raises(FormatError, match=message):
        read_directory(stored(content))


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_names_that_are_repeated(stored, tmp_path):
    with zipfile.ZipFile(tmp_path / "b.zip", "w") as file:
        file.writestr("same", b"1")
        file.writestr("same", b"2")
    with pytest.raises(FormatError, match="two members named 'same'"):
        read_directory(StoredFile(tmp_path / "b.zip"))


def test_one_member_under_two_names(stored):
    """Small files with many names for the same bytes would pass for large ones."""
    content = archive({"aa": b"first"})
    begin, end = content.index(b"PK\1\2"), content.index(b"PK\5\6")
    entry = content[begin:end]
    last = struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, 2, 2, 2 * len(entry), begin, 0)
    with pytest.raises(FormatError, match="two members named 'aa'"):
        read_directory(stored(content[:begin] + entry + entry + last))
    other = entry.replace(b"aa", b"bb")
    with pytest.raises(FormatError, match="'bb' has another name in its header"):
        read_directory(stored(content[:begin] + entry + other + last))


@pytest.mark.parametrize("limit", ["_MAX_MEMBERS", "_MAX_DIRECTORY_BYTES"])
def test_too_many_members(stored, monkeypatch, limit):
    monkeypatch.setattr(zip_archive, limit, 3)
    with pytest.raises(FormatError, match=r"expected at most .* got 4 in "):
        read_directory(stored(archive(FILES)))


@pytest.mark.parametrize("difference", [-1, 1])
def test_more_or_fewer_bytes_than_declared(stored, difference):
    content = bytearray(archive({"a": b"first" * 10}, zipfile.ZIP_DEFLATED))
    content[content.index(b"PK\1\2") + 24] += difference
    file = stored(content)
    message = "is damaged" if difference > 0 else "is larger than the archive declares"
    with pytest.raises(FormatError, match=message):
        list(inflate(file, read_directory(file)["a"]))


def test_bytes_that_are_not_deflated(stored):
    content = bytearray(archive({"a": bytes(100)}, zipfile.ZIP_DEFLATED))
    content[31] = 0xFF
    file = stored(content)
    with pytest.raises(FormatError, match="'a' is damaged"):
        list(inflate(file, read_directory(file)["a"]))
