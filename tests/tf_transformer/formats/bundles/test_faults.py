"""Damaged and malicious checkpoints: an error of one line."""

import os

import numpy as np
import pytest

from tests.tf_transformer.formats.bundles import written
from tests.tf_transformer.formats.bundles.written import entry, field, header, table, varint
from tf_transformer.errors import InputError
from tf_transformer.formats.bundles.bundle import open_bundle

DATA = np.arange(6, dtype="float32").tobytes()
GOOD = entry((2, 3), DATA)


def read(folder, index, data=DATA):
    """Reads all variables of a checkpoint."""
    (folder / "c.index").write_bytes(index)
    if data is not None:
        (folder / "c.data-00000-of-00001").write_bytes(data)
    with open_bundle(folder / "c.index") as found:
        return {name: found[name] for name in found}


def of(content, first=None):
    return table([(b"", header() if first is None else first), (b"v", content)])


def test_good(tmp_path):
    assert read(tmp_path, of(GOOD))["v"].shape == (2, 3)


FAULTS = {
    "another type": (of(entry((2, 3), DATA, dtype=20)), "'v' is of type 20"),
    "a resource": (of(entry((2, 3), DATA, dtype=0)), "'v' is of type 0"),
    "another size": (of(entry((2, 4), DATA)), "shape of 'v' does not match the bytes"),
    "a negative size": (of(entry((-2, -3), DATA)), "shape of a tensor is too large"),
    "a huge size": (of(entry((2**40, 2**40), DATA)), "shape of a tensor is too large"),
    "sizes that overflow": (of(entry((2**33, 2**33, 0), DATA)), "shape of a tensor is too large"),
    "many axes": (of(entry((1,) * 33, DATA)), "33 axes"),
    "a huge claim": (
        of(entry((2**30,), DATA, size=2**32)),
        r"'v' is outside c\.data-00000-of-00001, which ends after 24 bytes",
    ),
    "outside the file": (of(entry((2, 3), DATA, offset=1)), "'v' is outside"),
    "a place beyond 64 bits": (of(entry((2, 3), DATA, offset=2**64)), "does not end"),
    "the same bytes often": (
        table([(b"", header())] + [(f"v{i}".encode(), GOOD) for i in range(9)]),
        r"data-00000-of-00001: declares 216 bytes of values, the file has 24",
    ),
    "another file": (of(entry((2, 3), DATA, shard=1)), "'v' is in file 1 of 1"),
    "slices": (of(entry((2, 3), DATA, more=field(7, b""))), "'v' is stored in slices"),
    "values": (of(entry((2, 3), DATA[::-1])), r"the checksum of 'v' is wrong"),
    "unknown rank": (of(field(1, 1) + field(2, field(3, 1))), "unknown rank"),
    "a shape that is a number": (of(field(1, 1) + field(2, 5)), "expected a shape"),
    "an axis that is a number": (of(field(1, 1) + field(2, field(2, 5))), "sizes of a shape"),
    "a type that is no number": (of(field(1, b"x")), "expected a number"),
    "a message that ends early": (of(GOOD[:-3]), "a message ends early"),
    "a number that does not end": (of(b"\x08" + b"\xff" * 11), "a number does not end"),
    "a field of another kind": (of(b"\x0b"), "a field of unknown kind"),
    "many fields": (of(field(9, 1) * 1001), "more than 1,000 values"),
    "no header": (table([(b"v", GOOD)]), "with a header"),
    "nothing": (table([]), "with a header"),
    "many files": (of(GOOD, header(10**9)), "expected at most 100 files of values, got 1,000,000"),
    "no files": (of(GOOD, header(0)), "got 0"),
    "the highest byte first": (of(GOOD, header(endianness=1)), "highest byte first"),
    "a name that is no text": (
        table([(b"", header()), (b"\xff", GOOD)]),
        "name of a variable is not UTF-8",
    ),
    "a name that is not printable": (
        table([(b"", header()), (b"v\n", GOOD)]),
        "not printable text",
    ),
    "a long name": (table([(b"", header()), (b"v" * 1001, GOOD)]), "1,001 bytes is too long"),
    "a name twice": (
        table([(b"", header()), (b"v", GOOD), (b"v", GOOD)]),
        "the name b'v' is not in its order",
    ),
    "compressed": (table([(b"", header()), (b"v", GOOD)], compression=1), "compressed index"),
    "another end": (table([(b"", header())], magic=5), "expected the index of a checkpoint"),
    "an empty file": (b"", "expected the index of a checkpoint"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_faults(tmp_path, fault):
    index, message = FAULTS[fault]
    with pytest.raises(InputError, match=message) as error:
        read(tmp_path, index)
    assert str(tmp_path / "c.") in str(error.value) and "\n" not in str(error.value)


@pytest.mark.slow
def test_every_changed_byte_of_the_index_is_found(tmp_path):
    """Blocks have checksums; what is between and after them, is not read or is checked."""
    index = of(GOOD)
    expected = read(tmp_path, index)["v"]
    for position in range(len(index)):
        changed = bytearray(index)
        changed[position] ^= 0x41
        try:
            found = read(tmp_path, bytes(changed))
        except InputError as error:
            assert "\n" not in str(error)
        else:
            np.testing.assert_array_equal(found["v"], expected)


def test_every_length_of_the_index(tmp_path):
    index = of(GOOD)
    for size in range(len(index)):
        with pytest.raises(InputError):
            read(tmp_path, index[:size])


@pytest.mark.slow
def test_entries_with_right_checksums(tmp_path):
    """Random messages, which only the checks of their values can refuse."""
    random = np.random.default_rng(1)
    refused = 0
    for _ in range(300):
        changed = bytearray(GOOD)
        for position in random.integers(0, len(changed), 3):
            changed[position] = random.integers(256)
        try:
            read(tmp_path, of(bytes(changed)))
        except InputError as error:
            assert "\n" not in str(error)
            refused += 1
    assert refused > 200


@pytest.mark.slow
def test_blocks_with_right_checksums(tmp_path):
    """Random entries of blocks, which can also name more files of values."""
    random = np.random.default_rng(1)
    good = written.block([(b"", header()), (b"v", GOOD)])
    for _ in range(300):
        changed = bytearray(good)
        for position in random.integers(0, len(changed), 2):
            changed[position] = random.integers(256)
        handle = varint(0) + varint(len(good))
        lists = written.block([(b"v", handle)])
        place = varint(len(good) + 5) + varint(len(lists))
        end = (varint(0) + varint(0) + place).ljust(40, b"\0")
        index = written.trailed(bytes(changed)) + written.trailed(lists) + end
        try:
            read(tmp_path, index + written.MAGIC.to_bytes(8, "little"))
        except (InputError, FileNotFoundError) as error:
            assert "\n" not in str(error)


@pytest.mark.parametrize("size", [0, 1, 23])
def test_values_that_were_cut_off(tmp_path, size):
    with pytest.raises(InputError, match="'v' is outside"):
        read(tmp_path, of(GOOD), DATA[:size])


def test_files_that_are_not_regular(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"c\.data-00000-of-00001"):
        read(tmp_path, of(GOOD), None)
    os.mkfifo(tmp_path / "c.data-00000-of-00001")
    with pytest.raises(InputError, match="expected a regular file, got a pipe"):
        read(tmp_path, of(GOOD), None)
    os.mkfifo(tmp_path / "d.index")
    with pytest.raises(InputError, match="expected a regular file, got a pipe"):
        open_bundle(tmp_path / "d.index")


def test_values_that_are_mostly_holes(tmp_path):
    """A file that takes no disk space cannot cause a large allocation."""
    size = 2**26
    (tmp_path / "c.index").write_bytes(of(entry((size // 4,), b"", size=size)))
    with open(tmp_path / "c.data-00000-of-00001", "wb") as file:
        file.truncate(size)
    with pytest.raises(InputError, match="the file stores 0"):
        open_bundle(tmp_path / "c.index")
