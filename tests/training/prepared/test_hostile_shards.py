"""Prepared folders that came from elsewhere: what no model can be trained with, in one line."""

import json
import os
import pathlib
import shutil

import pytest
import tensorflow as tf

from tests.training.preparation.test_prepare import PAIRS, prepare, write_pairs
from tests.training.prepared.conftest import SETTINGS
from tests.training.prepared.test_prepared_text import DATA, train_options
from tf_transformer.__main__ import main
from training.prepared.existing_vocabulary import read_vocabulary
from training.prepared.prepared_folder import (
    WORK_NAME,
    PreparedFolder,
    digest_of_file,
    read_description,
    read_models,
)
from training.prepared.prepared_text import PreparedText
from training.prepared.records import encode_pair, write_record

PAIR = ([5, 6, 7, 3], [8, 9, 3])
SIZE = 400


@pytest.fixture(scope="module")
def sound(tmp_path_factory) -> pathlib.Path:
    directory = tmp_path_factory.mktemp("prepared")
    files = [[path] for path in write_pairs(directory, PAIRS[:300])]
    prepare(*files, directory / "out", *SETTINGS, "--shard-pairs", "100")
    return directory / "out"


@pytest.fixture
def folder(sound, tmp_path) -> pathlib.Path:
    return shutil.copytree(sound, tmp_path / "folder")


def write_shard(folder, records, lengths=None, **changes) -> pathlib.Path:
    """Replaces the second shard, and describes it as somebody would who wants it to be read."""
    path = folder / "shard-00001.tfrecord"
    with open(path, "wb") as file:
        for record in records:
            write_record(file, record)
    return describe(folder, lengths or [0, 0, 0, 0, len(records)], **changes)


def describe(folder, lengths, **changes) -> pathlib.Path:
    path = folder / "shard-00001.tfrecord"
    description = json.loads((folder / "prepared.json").read_text())
    description["shards"][1] |= {
        "pairs": sum(lengths),
        "lengths": lengths,
        "bytes": path.stat().st_size,
        "digest": digest_of_file(path),
    } | changes
    (folder / "prepared.json").write_text(json.dumps(description))
    return path


def read_all(folder) -> PreparedText:
    """Reads more batches than an epoch has."""
    text = PreparedText([PreparedFolder(folder)], DATA)
    for _ in text.training_batches(1).take(100):
        pass
    return text


@pytest.mark.slow
def test_what_is_sound(folder):
    write_shard(folder, [encode_pair(*PAIR)] * 20)
    text = read_all(folder)
    text.check_digests()
    text.check_records()


@pytest.mark.representatives(
    *("-1-0", "0-1", "400-0", "4294967301-1", "-9223372036854775808-1")  # of each comparison
)
@pytest.mark.slow
@pytest.mark.parametrize("side", [0, 1])
@pytest.mark.parametrize("token", [-1, 0, SIZE, 2**31 + 5, 2**32 + 5, 2**62, -(2**63)])
def test_ids_that_are_none(folder, side, token):
    pair = [list(ids) for ids in PAIR]
    pair[side][1] = token
    path = write_shard(folder, [*[encode_pair(*PAIR)] * 6, encode_pair(*pair)])
    with pytest.raises(tf.errors.InvalidArgumentError):
        read_all(folder)
    message = rf"{path}: record 7: expected ids from 1 to 399, got {token}; copy it again"
    with pytest.raises(ValueError, match=message):
        PreparedText([PreparedFolder(folder)], DATA).check_records()


@pytest.mark.slow
@pytest.mark.parametrize(
    "record",
    [
        encode_pair([], PAIR[1]),
        encode_pair(PAIR[0], []),
        encode_pair(None, PAIR[1]),
        b"",
    ],
    ids=["no source", "no target", "target alone", "nothing"],
)
def test_records_that_lack_a_side(folder, record):
    path = write_shard(folder, [encode_pair(*PAIR), record])
    with pytest.raises(tf.errors.InvalidArgumentError):
        read_all(folder)
    with pytest.raises(ValueError, match=rf"{path}: record 2: expected ids of each side, got none"):
        PreparedText([PreparedFolder(folder)], DATA).check_records()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("length", "lengths", "reason"),
    [
        (31, [0, 0, 0, 1], "record 1: 31 tokens, more than prepared.json records"),
        (4, [0] * 20 + [1], "its records have other lengths than prepared.json records"),
        (4, [0, 0, 0, 0, 2], "its records have other lengths than prepared.json records"),
    ],
)
def test_lengths_that_are_not_those_of_the_records(folder, length, lengths, reason):
    """In a bucket they may be; nothing depends on that."""
    path = write_shard(folder, [encode_pair([5] * (length - 1) + [3], PAIR[1])], lengths)
    with pytest.raises(tf.errors.InvalidArgumentError):
        read_all(folder)
    with pytest.raises(ValueError, match=f"{path}: {reason}"):
        PreparedText([PreparedFolder(folder)], DATA).check_records()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda data: data[:12] + b"\xff" * (len(data) - 12), "record 1: its checksum is wrong"),
        (lambda data: b"\xff" * len(data), "record 1: the checksum of its length is wrong"),
        (lambda data: data[:-3], "record 20: the file ends before it is complete"),
    ],
)
def test_files_that_hold_no_records(folder, change, reason):
    path = write_shard(folder, [encode_pair(*PAIR)] * 20)
    path.write_bytes(change(path.read_bytes()))
    describe(folder, [0, 0, 0, 0, 20])
    with pytest.raises(tf.errors.OpError):
        read_all(folder)
    with pytest.raises(ValueError, match=f"{path}: {reason}; copy it again"):
        PreparedText([PreparedFolder(folder)], DATA).check_records()


def test_a_record_that_claims_to_be_huge(folder):
    """With a valid checksum, as an attacker would write it."""
    from training.prepared.records import _LENGTH, _checksum

    path = write_shard(folder, [encode_pair(*PAIR)] * 20)
    length = _LENGTH.pack(2**62)
    path.write_bytes(path.read_bytes() + length + _checksum(length) + b"x" * 100)
    describe(folder, [0, 0, 0, 0, 20])
    with pytest.raises(ValueError, match="record 21: the file ends before it is complete"):
        PreparedText([PreparedFolder(folder)], DATA).check_records()


@pytest.mark.slow
def test_garbage_in_a_record(folder):
    path = write_shard(folder, [encode_pair(*PAIR), b"\xff" * 40])
    with pytest.raises((tf.errors.OpError, UnicodeDecodeError)):
        read_all(folder)
    with pytest.raises(ValueError, match=f"{path}: record 2: it is not a tf.train.Example"):
        PreparedText([PreparedFolder(folder)], DATA).check_records()


def test_another_digest(folder):
    path = write_shard(folder, [encode_pair(*PAIR)] * 20, digest="0" * 32)
    with pytest.raises(ValueError, match=f"{path}: damaged; copy it again"):
        PreparedText([PreparedFolder(folder)], DATA).check_digests()


def errors(capsys, *command) -> str:
    assert main(list(map(str, command))) == 2
    return capsys.readouterr().err.splitlines()[-1].removeprefix("tf-transformer: error: ")


@pytest.mark.representatives("id")
@pytest.mark.slow
@pytest.mark.parametrize(
    ("record", "reason"),
    [
        (encode_pair([5, 2**62, 3], PAIR[1]), f"expected ids from 1 to 399, got {2**62}"),
        (b"\xff" * 40, "it is not a tf.train.Example"),
    ],
    ids=["id", "garbage"],
)
def test_training_ends_in_one_line(
    untraced_training, folder, corpus, tmp_path, capsys, record, reason
):
    path = write_shard(folder, [record], [0, 0, 0, 1])
    error = errors(capsys, *train_options(corpus, tmp_path / "m", str(folder)))
    assert error.startswith(f"{path}: record 1: {reason}; copy it again, or remove")


def test_training_begins_with_the_digests(folder, corpus, tmp_path, capsys):
    path = write_shard(folder, [encode_pair(*PAIR)] * 20, digest="0" * 32)
    error = errors(capsys, *train_options(corpus, tmp_path / "m", str(folder)))
    assert error.startswith(f"{path}: damaged; copy it again, or remove")
    assert not (tmp_path / "m" / "config.json").exists()


@pytest.mark.parametrize("name", [WORK_NAME, "target.spm"])
def test_prepare_writes_through_no_link(tmp_path, capsys, name):
    """In a folder that somebody else has begun."""
    files = [[path] for path in write_pairs(tmp_path, PAIRS[:300])]
    folder, others = tmp_path / "out", tmp_path / "others"
    (folder / WORK_NAME).mkdir(parents=True)
    others.mkdir()
    if name == WORK_NAME:
        (folder / name).rmdir()
        (folder / name).symlink_to(others)
    else:
        (folder / name).symlink_to(others / "new")
    command = ["prepare", "--source", *files[0], "--target", *files[1], "--output", folder]
    error = errors(capsys, *command, "--processes", "1", *SETTINGS)
    assert error.startswith(f"{folder / name}: expected a file or folder, got a symbolic")
    assert list(others.iterdir()) == []


# ---- The description and the vocabulary ----


@pytest.mark.parametrize("vocabulary", [{"sise": 3}, {"size": "many"}, [], "x", None])
def test_settings_that_are_none_name_the_file(folder, vocabulary):
    path = folder / "prepared.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"vocabulary": vocabulary}))
    text = PreparedText([PreparedFolder(folder)], DATA)
    for read in (lambda: text.vocabulary, lambda: read_vocabulary(folder)):
        with pytest.raises(ValueError, match=rf"^{path}: damaged \((unknown )?setting"):
            read()


def test_a_shard_that_is_listed_twice(folder):
    path = folder / "prepared.json"
    description = json.loads(path.read_text())
    description["shards"].append(description["shards"][0])
    path.write_text(json.dumps(description))
    with pytest.raises(ValueError, match=r"every shard once, got shard-00000.tfrecord 2 times"):
        read_description(folder)


@pytest.mark.parametrize("length", ["x", "40", 0, -1, 1.5, True, None, [40]])
def test_a_maximum_length_that_is_none(folder, length):
    path = folder / "prepared.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"max_length": length}))
    with pytest.raises(
        ValueError, match=rf"^{path}: damaged, expected max_length to be an integer"
    ):
        read_description(folder)


def test_a_description_that_is_no_file(folder):
    path = folder / "prepared.json"
    path.unlink()
    os.mkfifo(path)
    with pytest.raises(ValueError, match=r"prepared.json: expected a regular file, got a pipe"):
        read_description(folder)


def test_a_vocabulary_that_is_no_file(corpus, tmp_path, capsys):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "loop").symlink_to("loop")
    for name, reason in (
        ("pipe", "expected a regular file, got a pipe"),
        ("loop", "too many levels of symbolic links"),
    ):
        vocabulary = tmp_path / name
        command = ["train", *corpus.options, "--model-dir", tmp_path / "m", "--vocabulary"]
        assert errors(capsys, *command, vocabulary) == f"{vocabulary}: {reason}"
    with pytest.raises(ValueError, match=r"nowhere: has no vocabulary \(target.spm\)"):
        read_models(tmp_path / "nowhere")
