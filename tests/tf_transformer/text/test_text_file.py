"""Reading text files: what a line is, TSV columns, gzip, and messages that name the place."""

import gzip
import os
import pathlib
import re
import subprocess
import sys

import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from tf_transformer.errors import InputError
from tf_transformer.text.reading import MAX_LINE_BYTES, open_text, split_name
from tf_transformer.text.text_file import TextFile

# Contents and their sentences. Only a line feed ends a line; carriage returns are dropped.
CONTENTS = {
    "lines": ("a\nb\n", ["a", "b"]),
    "last_line_without_line_feed": ("a\nb", ["a", "b"]),
    "empty": ("", []),
    "one_line_feed": ("\n", [""]),
    "empty_lines": ("\n\na\n\n", ["", "", "a", ""]),
    "carriage_returns": ("a\r\nb\r\n", ["a", "b"]),
    "carriage_return_inside": ("a\rb\r\r\nc\r", ["ab", "c"]),
    "only_a_carriage_return": ("a\n\r\nb\n", ["a", "", "b"]),
    "other_separators": (
        "a\u2028b\u2029c\x0cd\x0be\x85f\x1cg\x1dh\x1e\ni\n",
        ["a\u2028b\u2029c\x0cd\x0be\x85f\x1cg\x1dh\x1e", "i"],
    ),
    "blanks": ("  a \t b  \n   \n", ["  a \t b  ", "   "]),
    "byte_order_mark": ("\ufeffa\n\ufeffb\n", ["a", "\ufeffb"]),
    "many_scripts": ("Größe\n我们\n😀👩‍👧\n", ["Größe", "我们", "😀👩‍👧"]),
    "long_line": ("x" * MAX_LINE_BYTES + "\ny\n", ["x" * MAX_LINE_BYTES, "y"]),
}
# A TSV file's contents, and the sentences of its columns 1 and 2.
TSV_CONTENTS = {
    "two_columns": ("a\tb\nc\td\n", ["a", "c"], ["b", "d"]),
    "last_line_without_line_feed": ("a\tb\nc\td", ["a", "c"], ["b", "d"]),
    "carriage_returns": ("a\tb\r\nc\r\td\r\n", ["a", "c"], ["b", "d"]),
    "empty_columns": ("\t\na\t\n\tb\n", ["", "a", ""], ["", "", "b"]),
    "three_columns": ("a\tb\tc\nd\te\tf\n", ["a", "d"], ["b", "e"]),
    "other_separators": ("a\u2028\tb\x0c\nc d\te\x0bf\n", ["a\u2028", "c d"], ["b\x0c", "e\x0bf"]),
}


def write(path: pathlib.Path, contents: str | bytes) -> pathlib.Path:
    data = contents if isinstance(contents, bytes) else contents.encode()
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path


def stream(file: TextFile) -> list[str]:
    return [line.decode() for line in file.dataset().as_numpy_iterator()]


@pytest.mark.parametrize("suffix", ["txt", "gz"])
@pytest.mark.parametrize("name", CONTENTS)
def test_sentences_of_a_plain_file(tmp_path, name, suffix):
    contents, sentences = CONTENTS[name]
    file = TextFile.parse(str(write(tmp_path / f"text.{suffix}", contents)))
    assert file.column is None
    assert list(file.lines()) == sentences
    assert stream(file) == sentences


@pytest.mark.parametrize(("column", "suffix"), [(1, "tsv"), (2, "tsv.gz")])
@pytest.mark.parametrize("name", TSV_CONTENTS)
def test_sentences_of_a_tsv_column(tmp_path, name, column, suffix):
    contents, *columns = TSV_CONTENTS[name]
    path = write(tmp_path / f"text.{suffix}", contents)
    file = TextFile.parse(f"{path}:{column}")
    assert list(file.lines()) == columns[column - 1]
    assert stream(file) == columns[column - 1]


@pytest.mark.slow
@given(text=st.text(st.sampled_from("aß😀 \t\n\n\r\x0b\x0c\x1e\x85\u2028\ufeff"), max_size=40))
@settings(max_examples=30, deadline=None)
def test_both_readers_agree_on_any_text(tmp_path_factory, text):
    *lines, last = text.removeprefix("\ufeff").split("\n")
    if last.strip("\r"):
        lines.append(last)
    else:  # nothing follows the last line feed; for carriage returns see below
        text = text.rstrip("\r")
    path = tmp_path_factory.getbasetemp() / "any.txt"
    file = TextFile(write(path, text))
    assert list(file.lines()) == [line.replace("\r", "") for line in lines]
    assert stream(file) == list(file.lines())


@pytest.mark.parametrize("suffix", ["txt", "gz"])
@pytest.mark.parametrize("contents", ["\r", "a\n\r", "a\n\r\r"])
def test_both_readers_agree_on_a_last_line_of_carriage_returns(tmp_path, contents, suffix):
    file = TextFile(write(tmp_path / f"text.{suffix}", contents))
    assert list(file.lines()) == stream(file)


def test_both_readers_read_all_members_of_a_gzip_file(tmp_path):
    path = tmp_path / "text.gz"
    members = [b"a\nb", b"", b"c\n", b"d\n", b""]
    path.write_bytes(b"".join(map(gzip.compress, members)) + bytes(512))
    assert list(TextFile(path).lines()) == stream(TextFile(path)) == ["a", "bc", "d"]


@pytest.mark.parametrize("suffix", ["txt", "gz"])
def test_both_readers_leave_blank_sentences_without_a_prefix(tmp_path, suffix):
    path = write(tmp_path / f"text.{suffix}", "a\n \t\n\n\x0b\x0c\n\u2028\n\x85\n\x1c\nb\n")
    file = TextFile(path, prefix="> ")
    expected = ["> a", " \t", "", "\x0b\x0c", "> \u2028", "> \x85", "> \x1c", "> b"]
    assert list(file.lines()) == stream(file) == expected


@pytest.mark.representatives("None")
@pytest.mark.slow
@pytest.mark.parametrize("column", [None, 2])
def test_both_readers_read_all_frames_of_a_zstandard_file(tmp_path, column):
    rows = [f"source {number}\ttarget {number}" for number in range(4_000)]
    data = "".join(f"{row}\r\n" for row in rows).encode()
    path = tmp_path / "text.tsv.zst"
    path.write_bytes(
        b"".join(zstandard.compress(part) for part in (data[:7], data[7:90], data[90:]))
    )
    file = TextFile(path, column)
    assert list(file.lines()) == [row.split("\t")[1] if column else row for row in rows]
    assert stream(file) == list(file.lines())


@pytest.mark.parametrize("size", [2, 10, 5000])
def test_cut_off_zstandard_file(tmp_path, size):
    path = tmp_path / "text.zst"
    lines = b"".join(b"%d lines\n" % number for number in range(20_000))
    path.write_bytes(zstandard.compress(b"first\n") + zstandard.compress(lines)[:size])
    with pytest.raises(ValueError, match=re.escape(f"{path}: truncated or damaged zstd file (")):
        list(TextFile(path).lines())


def test_a_zstandard_file_with_a_large_window(tmp_path):
    path = tmp_path / "text.zst"
    parameters = zstandard.ZstdCompressionParameters(window_log=28, write_content_size=0)
    compressor = zstandard.ZstdCompressor(compression_params=parameters).compressobj()
    path.write_bytes(compressor.compress(b"a\n") + compressor.flush())
    with pytest.raises(ValueError, match="its zstd window is larger than 128 MiB; compress"):
        list(TextFile(path).lines())


def test_lines_are_read_as_they_are_needed(tmp_path):
    lines = TextFile(write(tmp_path / "text", b"a\nb\n\xff\n")).lines()
    assert [next(lines), next(lines)] == ["a", "b"]
    with pytest.raises(ValueError, match="not UTF-8"):
        next(lines)


# ---- Names on the command line ----


@pytest.mark.parametrize(
    ("name", "default_column", "path", "column"),
    [
        ("a.txt", 2, "a.txt", None),
        ("a.gz", 2, "a.gz", None),
        ("a.tsv", 1, "a.tsv", 1),
        ("a.tsv", 2, "a.tsv", 2),
        ("a.tsv.gz", 2, "a.tsv.gz", 2),
        ("a.tsv:1", 2, "a.tsv", 1),
        ("a.tsv.gz:12", 1, "a.tsv.gz", 12),
        ("a:b.tsv:2", 1, "a:b.tsv", 2),
        ("a.tsv.zst:2", 1, "a.tsv.zst", 2),
        ("a.zst", 2, "a.zst", None),
        ("a.tsv.old", 2, "a.tsv.old", None),
    ],
)
def test_names(tmp_path, name, default_column, path, column):
    write(tmp_path / path, "")
    file = TextFile.parse(f"{tmp_path}/{name}", default_column)
    assert (file.path, file.column) == (tmp_path / path, column)


def test_the_default_column_is_the_first(tmp_path):
    assert TextFile.parse(str(write(tmp_path / "text.tsv", ""))).column == 1


def test_a_file_is_shown_as_it_is_named(tmp_path):
    path = write(tmp_path / "text.tsv", "")
    assert str(TextFile.parse(f"{path}:2")) == f"{path}:2"
    assert str(TextFile(path)) == str(path)


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("nowhere", "nowhere"),
        ("nowhere.gz", "nowhere.gz"),
        ("nowhere.tsv:2", "nowhere.tsv"),
        ("text.txt:2", "text.txt:2"),
    ],
)
def test_no_such_file(tmp_path, name, shown):
    write(tmp_path / "text.txt", "a\n")
    with pytest.raises(ValueError, match=re.escape(f"{tmp_path}/{shown}: no such file") + "$"):
        TextFile.parse(f"{tmp_path}/{name}")


def test_a_folder_or_a_pipe_is_no_file(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path, tmp_path / "pipe"):
        with pytest.raises(
            ValueError, match=f"^{re.escape(str(path))}: expected a regular file, since"
        ):
            TextFile.parse(str(path))


def test_columns_are_counted_from_1(tmp_path):
    path = write(tmp_path / "text.tsv", "a\tb\n")
    with pytest.raises(ValueError, match=re.escape(f"{path}:0: columns are counted from 1")):
        TextFile.parse(f"{path}:0")


# ---- Faults in files ----


@pytest.mark.parametrize("suffix", ["txt", "gz", "tsv"])
@pytest.mark.parametrize("fault", [b"\xff", b"Gr\xf6\xdfe", b"\xed\xa0\x80", b"\xe2\x82"])
def test_not_utf8_names_the_line(tmp_path, fault, suffix):
    path = write(tmp_path / f"text.{suffix}", b"a\n\xe2\x80\xa8\n" + fault + b"\nb\n")
    with pytest.raises(ValueError, match=re.escape(f"{path}:3: not UTF-8 (")):
        list(TextFile.parse(str(path)).lines())


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be"])
def test_utf_16_is_named(tmp_path, encoding):
    path = tmp_path / "text"
    path.write_bytes("two words\n".encode(encoding))
    kind = "not text in UTF-8 (it has a NUL byte)"
    if encoding == "utf-16":
        kind = "not UTF-8 (UTF-16; save it as UTF-8)"
    with pytest.raises(ValueError, match=re.escape(f"{path}:1: {kind}") + "$"):
        list(TextFile(path).lines())


@pytest.mark.parametrize("format_", ["gzip", "zstd"])
def test_compressed_bytes_under_another_name(tmp_path, format_):
    path = tmp_path / "text"
    data = b"two words\n" * 30
    path.write_bytes({"gzip": gzip, "zstd": zstandard}[format_].compress(data))
    with pytest.raises(ValueError, match=f"^{re.escape(str(path))}:1: .*compressed by {format_}; "):
        list(TextFile(path).lines())


@pytest.mark.parametrize("suffix", ["txt", "gz", "tsv"])
def test_a_nul_byte_names_the_line(tmp_path, suffix):
    path = write(tmp_path / f"text.{suffix}", b"a\nb\0c\n")
    message = f"{path}:2: not text in UTF-8 (it has a NUL byte)"
    with pytest.raises(ValueError, match=re.escape(message) + "$"):
        list(TextFile.parse(str(path)).lines())


@pytest.mark.parametrize("end", [b"", b"\n", b"\nthird\n"])
def test_a_line_without_end_names_the_line(tmp_path, end):
    path = write(tmp_path / "text", b"first\n" + b"x" * (MAX_LINE_BYTES + 1) + end)
    lines = TextFile(path).lines()
    assert next(lines) == "first"
    with pytest.raises(ValueError, match=r"text:2: expected a sentence, got more than 1,048,576"):
        next(lines)


def compressed_zeros(suffix: str) -> bytes:
    """A gigabyte of them in few bytes."""
    mebibyte = bytes(2**20)
    if suffix == "zst":
        return zstandard.compress(mebibyte * 64) * 16
    return gzip.compress(mebibyte * 64) * 16


@pytest.mark.slow
@pytest.mark.parametrize("suffix", ["gz", "zst"])
def test_a_small_file_does_not_fill_the_memory(tmp_path, suffix):
    path = tmp_path / f"text.{suffix}"
    path.write_bytes(compressed_zeros(suffix))
    program = f"""
import pathlib, resource
from tf_transformer.text.text_file import TextFile
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
try:
    list(TextFile(pathlib.Path({str(path)!r})).lines())
except ValueError as error:
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before, error)
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=120
    )
    grown, message = done.stdout.split(" ", 1)
    assert message.startswith(f"{path}:1: expected a sentence, got more than 1,048,576 bytes")
    assert int(grown) < 60_000  # KiB


@pytest.mark.slow
def test_zstandard_is_decompressed_little_by_little(tmp_path):
    path = tmp_path / "text.zst"
    path.write_bytes(zstandard.compress(bytes(2**28)))
    with open_text(path) as file:
        assert file.read(10) == bytes(10)
        assert len(file.raw._ready) <= 2**25


def test_missing_column_names_the_line(tmp_path):
    path = write(tmp_path / "text.tsv", "a\tb\nc\td\ne\nf\tg\n")
    message = f"{path}:3: expected at least 2 columns separated by tabs, got 1"
    with pytest.raises(ValueError, match=re.escape(message) + "$"):
        list(TextFile.parse(f"{path}:2").lines())
    assert list(TextFile.parse(f"{path}:1").lines()) == ["a", "c", "e", "f"]


WHOLE_GZIP = gzip.compress(b"".join(b"%d lines\n" % number for number in range(2000)))


@pytest.mark.parametrize("size", [1, 5, 10, 40, len(WHOLE_GZIP) // 2, len(WHOLE_GZIP) - 1])
def test_truncated_gzip(tmp_path, size):
    path = tmp_path / "text.gz"
    path.write_bytes(WHOLE_GZIP[:size])
    with pytest.raises(ValueError, match=re.escape(f"{path}: truncated or damaged gzip file (")):
        list(TextFile(path).lines())


def test_plain_text_named_gz(tmp_path):
    path = tmp_path / "text.gz"
    path.write_bytes(b"plain text\n")
    with pytest.raises(ValueError, match=re.escape(f"{path}: truncated or damaged gzip file (")):
        list(TextFile(path).lines())


def test_gzip_with_a_wrong_check_sum(tmp_path):
    path = tmp_path / "text.gz"
    path.write_bytes(WHOLE_GZIP[:-8] + bytes([WHOLE_GZIP[-8] ^ 1]) + WHOLE_GZIP[-7:])
    with pytest.raises(ValueError, match=re.escape(f"{path}: truncated or damaged gzip file (CRC")):
        list(TextFile(path).lines())


def test_damaged_gzip(tmp_path):
    path = tmp_path / "text.gz"
    path.write_bytes(WHOLE_GZIP[:10] + b"\xff" * 30 + WHOLE_GZIP[40:])
    with pytest.raises(ValueError, match=re.escape(f"{path}: truncated or damaged gzip file (")):
        list(TextFile(path).lines())


@pytest.mark.parametrize("digits", ["9" * 10, "9" * 5000, "0" * 5000 + "9" * 10])
def test_a_column_with_too_many_digits(digits):
    with pytest.raises(InputError, match=r"expected a column of at most 9 digits, got \d") as error:
        split_name(f"x.tsv:{digits}")
    assert len(str(error.value)) < 400
    assert split_name("x.tsv:" + "0" * 5000 + "7") == (pathlib.Path("x.tsv"), 7)
