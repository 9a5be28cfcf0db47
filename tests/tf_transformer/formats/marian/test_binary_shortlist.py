"""Marian's binary shortlists: the candidates of each piece, and files that are refused."""

import struct
import tracemalloc

import numpy as np
import pytest

from tests.tf_transformer.formats.marian.binary_files import as_shortlist, checksum
from tests.tf_transformer.formats.marian.firefox_folder import (
    FIRST,
    SHORTLIST,
    student,
    write_firefox,
)
from tf_transformer.errors import InputError
from tf_transformer.formats.import_model import import_model
from tf_transformer.formats.marian.binary_shortlist import read_binary_shortlist
from tf_transformer.formats.marian.reader import Marian
from tf_transformer.formats.marian.sentencepiece_models import read_pieces
from tf_transformer.shortlists.table import MAX_CANDIDATES, read_shortlist
from tf_transformer.text.special_ids import NUM_SPECIAL
from tf_transformer.text.vocabulary import Vocabulary

SIZES = (6, 9)
ROWS = [[3], [], [4, 8], [], [0, 5, 7], []]


def test_candidates_by_pieces(tmp_path):
    """Those that Marian's `generate` finds, by the names of the pieces."""
    for joint in (True, False):
        folder = tmp_path / str(joint)
        rows = write_firefox(folder, joint)
        imported = Marian().read(folder)
        sides = {side: read_pieces(model)[0] for side, model in student(joint)[1].items()}
        (tmp_path / "found.tsv").write_text("".join(imported.shortlist), encoding="utf-8")
        source, target = Vocabulary(imported.source_model), Vocabulary(imported.target_model)
        table = read_shortlist(tmp_path / "found.tsv", source, target)
        always = {target.pieces[index] for index in table.always}
        special = {"</s>", "<unk>"}
        assert always == set(sides["target"][:FIRST]) - special and len(always) == FIRST - 2
        assert source.pieces[NUM_SPECIAL:] == sides["source"][2:]
        for original, piece in enumerate(sides["source"]):
            found = {target.pieces[x] for x in table.by_source[source.pieces.index(piece)] if x}
            expected = {sides["target"][x] for x in rows[original]}
            if joint:  # Marian's `shared_`: a piece may stay as it is
                expected.add(piece)
            assert found == expected - special - always, piece


def write(path, rows=ROWS, first=2, **header):
    path.write_bytes(as_shortlist(rows, first, **header))
    return path


def test_the_end_of_a_file_may_be_half_a_word(tmp_path):
    """The checksum covers whole words of 64 bits."""
    for rows in (ROWS, [*ROWS[:5], [2]]):
        found = read_binary_shortlist(write(tmp_path / "lex.bin", rows), *SIZES)
        assert found.first == 2
        expected = [target for row in rows for target in row]
        np.testing.assert_array_equal(found.candidates, expected)
        np.testing.assert_array_equal(np.diff(found.offsets), [len(row) for row in rows])


def edited(edit, fix_checksum=True):
    def change(path):
        content = bytearray(as_shortlist(ROWS, 2))
        content = bytearray(edit(content) or content)
        if fix_checksum:
            content[8:16] = struct.pack("<Q", checksum(bytes(content[16:])))
        path.write_bytes(content)

    return change


def put(position, code, value):
    return lambda content: struct.pack_into(code, content, position, value)


FAULTS = {
    "empty": (lambda path: path.write_bytes(b""), "expected a binary shortlist of Marian"),
    "another file": (lambda path: write(path, magic=1), "expected a binary shortlist of Marian"),
    "cut off": (edited(lambda content: content[:-4]), r"expected 128 bytes, the file has 124"),
    "longer": (edited(lambda content: content + b"1234"), "expected 128 bytes, the file has 132"),
    "huge": (lambda path: write(path, count=2**62), "bytes, the file has 128"),
    "huge offsets": (lambda path: write(path, num_offsets=2**61 + 7), "bytes, the file has 128"),
    "another checksum": (lambda path: write(path, checksum=3), "the checksum does not match"),
    "a changed id": (edited(put(104, "<I", 2), fix_checksum=False), "the checksum does not match"),
    "another source": (lambda path: write(path, ROWS[:5]), "of 6 entries, got 5"),
    "another target": (edited(put(104, "<I", 9)), "of 9 entries, got the id 9"),
    "backwards": (edited(put(56, "<Q", 4)), "the candidates of an id are not inside the file"),
    "outside": (edited(put(96, "<Q", 2**63)), "the candidates of an id are not inside the file"),
    "not from 0": (edited(put(48, "<Q", 1)), "the candidates of an id are not inside the file"),
    "many for all": (lambda path: write(path, first=2**40), f"at most {MAX_CANDIDATES} candidates"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_faults(fault, tmp_path):
    change, message = FAULTS[fault]
    change(tmp_path / "lex.bin")
    with pytest.raises(InputError, match=message) as error:
        read_binary_shortlist(tmp_path / "lex.bin", *SIZES)
    assert "\n" not in str(error.value) and "lex.bin" in str(error.value)


def test_a_damaged_file_is_found_by_its_name(tmp_path):
    write_firefox(tmp_path / "model")
    (shortlist,) = (tmp_path / "model").glob("lex.*")
    shortlist.write_bytes(b"")
    with pytest.raises(InputError, match="expected a binary shortlist of Marian"):
        Marian().read(tmp_path / "model")


def test_many_candidates_of_an_id(tmp_path):
    rows = [[*range(MAX_CANDIDATES + 1)], []]
    with pytest.raises(InputError, match=r"at most 1000 candidates, got 1,001"):
        read_binary_shortlist(write(tmp_path / "lex.bin", rows), 2, 2000)


def test_a_damaged_shortlist_refuses_the_model(tmp_path):
    write_firefox(tmp_path / "theirs")
    path = tmp_path / "theirs" / SHORTLIST
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(InputError, match=rf"{SHORTLIST}: expected .* bytes"):
        import_model(tmp_path / "theirs", tmp_path / "ours")
    write_firefox(tmp_path / "two")
    content = (tmp_path / "two" / SHORTLIST).read_bytes()
    (tmp_path / "two" / "lex.ende.bin").write_bytes(content)
    with pytest.raises(InputError, match=r"expected one shortlist, found lex\.50.*, lex\.ende"):
        import_model(tmp_path / "two", tmp_path / "ours")
    assert not (tmp_path / "ours").exists()


@pytest.mark.slow
def test_fuzzed_headers_never_need_much_memory(tmp_path):
    """Wrong bytes in the header and the offsets, under a right checksum: refused, or read."""
    random = np.random.default_rng(1)
    rows = [random.integers(0, 500, 8).tolist() for _ in range(100)]
    content = as_shortlist(rows, 50)
    path = tmp_path / "lex.bin"
    accepted = refused = 0
    for _ in range(250):
        changed = bytearray(content)
        region = random.choice([48, 800])
        for position in random.integers(16, region, random.integers(1, 4)):
            changed[position] = random.choice([0, 1, 255, random.integers(256)])
        changed[8:16] = struct.pack("<Q", checksum(bytes(changed[16:])))
        path.write_bytes(changed)
        tracemalloc.start()
        try:
            read_binary_shortlist(path, 100, 500)
            accepted += 1
        except InputError:
            refused += 1
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 8 * len(content)
    assert accepted > 20 and refused > 100
