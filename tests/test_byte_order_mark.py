"""A byte order mark at the beginning of a text file is no text, whoever reads the file."""

import codecs
import gzip
import itertools
import os
import threading

import pytest
import zstandard

from export.bulk.line_rows import read_lines
from export.bulk.row_files import RowFile
from export.lines.line_batches import Lines, open_lines
from tf_transformer.formats.checkpoints.fairseq_dictionary import read_dictionary
from tf_transformer.formats.checkpoints.opennmt_tf_folder import find_vocabularies
from tf_transformer.formats.checkpoints.opennmt_tf_folder import read_vocabulary as read_words
from tf_transformer.formats.marian.folder import find_files
from tf_transformer.formats.marian.vocabularies import read_vocabulary
from tf_transformer.storage.json_files import read_json
from tf_transformer.terms.glossary import Glossary
from tf_transformer.text.line_count import count_lines
from tf_transformer.text.parallel_text import digest
from tf_transformer.text.text_file import TextFile
from training.settings import read_settings
from training.tuning.space import read_space
from training.vocabulary_extension import read_pieces

MARK = codecs.BOM_UTF8
COMPRESS = {"": bytes, ".gz": gzip.compress, ".zst": zstandard.compress}
LINES = b"first \xc3\xa4\tone\n\xef\xbb\xbfthe mark is text\there\nlast\tline"


def stream(file):
    return [line.decode() for line in file.dataset().as_numpy_iterator()]


def batches(name):
    with open_lines(name) as lines:
        return list(itertools.chain(*lines.batches(lambda line, where: line)))


def count(name):
    with open_lines(name) as lines:
        return lines.count()


# Readers of lines: from the path of a file to values.
LINE_READERS = {
    "lines": lambda path: list(TextFile(path).lines()),
    "lines with a prefix": lambda path: list(TextFile(path, prefix=">>de<< ").lines()),
    "dataset": lambda path: stream(TextFile(path)),
    "dataset with a prefix": lambda path: stream(TextFile(path, prefix=">>de<< ")),
    "column": lambda path: list(TextFile(path, 1).lines()),
    "dataset of a column": lambda path: stream(TextFile(path, 2)),
    "digest": lambda path: digest(TextFile(path)),
    "line count": lambda path: count_lines(path, 2).lines,
    "batches": lambda path: batches(str(path)),
    "count of batches": lambda path: count(str(path)),
}


TEXTS = {
    "lines": LINES,
    "ended": LINES + b"\r\n",
    "columns": b"\t\n\t\r",
    "empty": b"",
    "return": b"\r",
    "blank": b"\n\r",
}


@pytest.mark.representatives("plain", "lines", "empty")
@pytest.mark.slow
@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
@pytest.mark.parametrize("suffix", COMPRESS, ids=["plain", "gz", "zst"])
def test_lines_are_those_without_the_mark(tmp_path, suffix, text):
    plain, marked = (tmp_path / f"{name}{suffix}" for name in ("plain", "marked"))
    plain.write_bytes(COMPRESS[suffix](text))
    marked.write_bytes(COMPRESS[suffix](MARK + text))
    readers = {
        name: read for name, read in LINE_READERS.items() if b"\t" in text or "column" not in name
    }
    expected = {name: read(plain) for name, read in readers.items()}
    assert {name: read(marked) for name, read in readers.items()} == expected
    # The mark is text anywhere else.
    has_mark = "\ufeffthe mark is text\there" in expected["lines"]
    assert has_mark == text.startswith(LINES)


def test_only_one_mark_is_dropped(tmp_path):
    path = tmp_path / "text"
    path.write_bytes(MARK + MARK + b"a\n" + MARK + b"b\n")
    lines = ["\ufeffa", "\ufeffb"]
    assert list(TextFile(path).lines()) == stream(TextFile(path)) == lines
    assert batches(str(path)) == [line.encode() for line in lines]


def test_a_mark_that_arrives_in_parts(tmp_path):
    read, write = os.pipe()

    def send():
        for byte in MARK + b"a\n" + MARK + b"b":
            os.write(write, bytes([byte]))
        os.close(write)

    sender = threading.Thread(target=send)
    sender.start()
    with os.fdopen(read, "rb") as pipe:
        found = list(itertools.chain(*Lines(pipe, "pipe").batches(lambda line, where: line)))
    sender.join()
    assert found == [b"a", MARK + b"b"]


@pytest.mark.parametrize(
    ("name", "content"),
    [("x", LINES), ("x.tsv:1", LINES), ("x.jsonl", b'{"text": "a"}\n{"text": "b"}\n')],
)
def test_rows_of_large_files(name, content):
    file = RowFile.parse(name)
    assert read_lines(MARK + content, file, 1) == read_lines(content, file, 1)
    assert not any(read_lines(MARK + content, file, 1).reasons)
    if file.format == "text":  # the second part of a file
        assert read_lines(MARK + content, file, 9).texts[0] == "\ufefffirst ä\tone"


# As text, since arrays are not compared as a whole.


def fairseq_dictionary(path):
    return repr(read_dictionary(path.parent, "en"))


def opennmt_vocabulary(path):
    return repr(read_words(path, is_target=True))


def marian_vocabulary(path):
    return repr(read_vocabulary(path, path.with_name("none")).rows)


# Other readers: the name of a file, its content, and what returns values from its path.
FILE_READERS = {
    "glossary": ("terms", "bank\tUfer\n", lambda path: Glossary.read(path).entries_for("bank")),
    "settings": ("a.yaml", "preset: tiny\n", lambda path: read_settings(path)),
    "JSON": ("a.json", '{"a": 1}\n', read_json),
    "search space": ("a.yaml", "search: {beam_size: [1, 4]}\n", read_space),
    "pieces": ("pieces", ">>fra<<\nword\n", read_pieces),
    "fairseq": ("dict.en.txt", "the 7\na 5\n", fairseq_dictionary),
    "OpenNMT-tf": ("a.vocab", "<blank>\n<s>\n</s>\nthe\n", opennmt_vocabulary),
    "Marian": ("v.yml", "</s>: 0\n<unk>: 1\n▁a: 2\n", marian_vocabulary),
}  # fmt: skip


@pytest.mark.parametrize("reader", FILE_READERS)
def test_files_are_those_without_the_mark(tmp_path, reader):
    name, content, read = FILE_READERS[reader]
    path = tmp_path / name
    path.write_text(content, encoding="utf-8")
    expected = read(path)
    path.write_text(f"\ufeff{content}", encoding="utf-8")
    assert expected
    assert read(path) == expected


def test_settings_of_other_toolkits(tmp_path):
    for name in ("source.vocab", "target.vocab", "model.npz", "v.spm"):
        (tmp_path / name).touch()
    text = "\ufeffdata: {source_vocabulary: source.vocab, target_vocabulary: target.vocab}\n"
    (tmp_path / "run.yml").write_text(text, encoding="utf-8")
    assert find_vocabularies(tmp_path / "model.index").run["data"]
    text = "\ufeffmodels: [model.npz]\nvocabs: [v.spm, v.spm]\n"
    (tmp_path / "decoder.yml").write_text(text, encoding="utf-8")
    assert find_files(tmp_path).model == tmp_path / "model.npz"


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-be", "utf-32"])
@pytest.mark.parametrize(
    "reader", [*sorted(FILE_READERS.keys() - {"Marian"}), "lines", "column", "digest", "batches"]
)
def test_a_file_in_utf_16_is_named(tmp_path, encoding, reader):
    """Programs of Windows write such files."""
    name, content, read = FILE_READERS.get(reader, ("a", "a\tb\n", LINE_READERS.get(reader)))
    path = tmp_path / name
    mark = codecs.BOM_UTF16_BE if encoding == "utf-16-be" else b""
    path.write_bytes(mark + content.encode(encoding))
    with pytest.raises(ValueError, match=r"not UTF-8 \(UTF-(16|32); save it as UTF-8\)$") as raised:
        read(path)
    assert "\n" not in str(raised.value) and encoding.upper()[:6] in str(raised.value)
