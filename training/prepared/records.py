"""Reads and writes pairs of token ids as TFRecords of `tf.train.Example`, without TensorFlow.

A record is an `Example` with the int64 lists `source` and `target`; a language model has only
`target`. The message is generated from example.proto.
"""

import struct
from collections.abc import Iterator, Sequence
from typing import BinaryIO

import google_crc32c
from google.protobuf.message import DecodeError

from tf_transformer.errors import InputError
from training.prepared.example_pb2 import Example

_LENGTH = struct.Struct("<Q")
_CHECKSUM = struct.Struct("<I")


def encode_pair(source: Sequence[int] | None, target: Sequence[int]) -> bytes:
    """Returns a pair's ids as a serialized `Example`; equal ids give equal bytes."""
    example = Example()
    feature = example.features.feature
    if source is not None:
        feature["source"].int64_list.value.extend(source)
    feature["target"].int64_list.value.extend(target)
    return example.SerializeToString(deterministic=True)


def write_record(file: BinaryIO, record: bytes) -> None:
    """Appends a record to the file, with the length and the checksums of the TFRecord format."""
    length = _LENGTH.pack(len(record))
    file.write(b"".join((length, _checksum(length), record, _checksum(record))))


def read_records(file: BinaryIO) -> Iterator[bytes]:
    """Yields the records that `write_record` wrote, without verifying their checksums."""
    while length := file.read(_LENGTH.size + _CHECKSUM.size):
        size = _LENGTH.unpack_from(length)[0]
        yield file.read(size + _CHECKSUM.size)[:size]


def checked_pairs(file: BinaryIO, num_bytes: int) -> Iterator[dict[str, Sequence[int]]]:
    """Yields the lists of each record, `source` and `target`, after verifying its checksums.

    The file may be from an untrusted source; the caller checks names and ids.

    Args:
        file: the file, positioned at its start.
        num_bytes: size of the file.

    Raises:
        InputError: a record is truncated, its checksum is wrong, or it is not an `Example`.
    """
    while header := file.read(_LENGTH.size + _CHECKSUM.size):
        if len(header) < _LENGTH.size + _CHECKSUM.size:
            raise InputError("the file ends before it is complete")
        size = _LENGTH.unpack_from(header)[0]
        if _checksum(header[: _LENGTH.size]) != header[_LENGTH.size :]:
            raise InputError("the checksum of its length is wrong")
        if file.tell() + size + _CHECKSUM.size > num_bytes:
            raise InputError("the file ends before it is complete")
        record = file.read(size)
        if _checksum(record) != file.read(_CHECKSUM.size):
            raise InputError("its checksum is wrong")
        try:
            feature = Example.FromString(record).features.feature
        except DecodeError as error:
            raise InputError("it is not a tf.train.Example") from error
        yield {name: list(entry.int64_list.value) for name, entry in feature.items()}


def _checksum(content: bytes) -> bytes:
    value = google_crc32c.value(content)
    return _CHECKSUM.pack((((value >> 15) | (value << 17)) + 0xA282EAD8) & 0xFFFFFFFF)
