"""Pairs of token ids as TFRecords of `tf.train.Example`, written without TensorFlow.

A record is an `Example` with the int64 lists `source` and `target`; for a language model `target`
alone. The message is built in a descriptor pool of its own, because TensorFlow registers the same
names in the common one and both may be loaded in one process.
"""

import struct
from collections.abc import Iterator, Sequence
from typing import BinaryIO

import google_crc32c
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.message import DecodeError

from tf_transformer.errors import InputError

_LENGTH = struct.Struct("<Q")
_CHECKSUM = struct.Struct("<I")


def _example_class():
    """The parts of `tensorflow/core/example/example.proto` that records here need."""
    field = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(
        name="example.proto", package="tensorflow", syntax="proto3"
    )
    for name in ("Int64List", "Feature", "Features", "Example"):
        file.message_type.add(name=name)
    int64_list, feature, features, example = file.message_type
    int64_list.field.add(
        name="value", number=1, type=field.TYPE_INT64, label=field.LABEL_REPEATED
    ).options.packed = True
    message = dict(type=field.TYPE_MESSAGE, label=field.LABEL_OPTIONAL)
    feature.field.add(name="int64_list", number=3, type_name=".tensorflow.Int64List", **message)
    entry = features.nested_type.add(name="FeatureEntry")
    entry.options.map_entry = True
    entry.field.add(name="key", number=1, type=field.TYPE_STRING, label=field.LABEL_OPTIONAL)
    entry.field.add(name="value", number=2, type_name=".tensorflow.Feature", **message)
    features.field.add(
        name="feature",
        number=1,
        type=field.TYPE_MESSAGE,
        label=field.LABEL_REPEATED,
        type_name=".tensorflow.Features.FeatureEntry",
    )
    example.field.add(name="features", number=1, type_name=".tensorflow.Features", **message)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("tensorflow.Example"))


_Example = _example_class()


def encode_pair(source: Sequence[int] | None, target: Sequence[int]) -> bytes:
    """One pair's ids as a serialised `Example`; equal ids give equal bytes."""
    example = _Example()
    feature = example.features.feature
    if source is not None:
        feature["source"].int64_list.value.extend(source)
    feature["target"].int64_list.value.extend(target)
    return example.SerializeToString(deterministic=True)


def write_record(file: BinaryIO, record: bytes) -> None:
    """Appends a record with the lengths and check sums of a TFRecord file."""
    length = _LENGTH.pack(len(record))
    file.write(b"".join((length, _checksum(length), record, _checksum(record))))


def read_records(file: BinaryIO) -> Iterator[bytes]:
    """The records of a file that `write_record` has written, check sums unseen."""
    while length := file.read(_LENGTH.size + _CHECKSUM.size):
        size = _LENGTH.unpack_from(length)[0]
        yield file.read(size + _CHECKSUM.size)[:size]


def checked_pairs(file: BinaryIO, num_bytes: int) -> Iterator[dict[str, Sequence[int]]]:
    """The ids of every record by their names, from a file that somebody else may have written.

    Args:
        file: at its beginning.
        num_bytes: of the file, which no record reaches beyond.

    Raises:
        ValueError: what follows is no whole record, has another check sum, or is no `Example`.
    """
    while header := file.read(_LENGTH.size + _CHECKSUM.size):
        if len(header) < _LENGTH.size + _CHECKSUM.size:
            raise InputError("the file ends within it")
        size = _LENGTH.unpack_from(header)[0]
        if _checksum(header[: _LENGTH.size]) != header[_LENGTH.size :]:
            raise InputError("its length has another check sum")
        if file.tell() + size + _CHECKSUM.size > num_bytes:
            raise InputError("the file ends within it")
        record = file.read(size)
        if _checksum(record) != file.read(_CHECKSUM.size):
            raise InputError("it has another check sum")
        try:
            feature = _Example.FromString(record).features.feature
        except DecodeError as error:
            raise InputError("it is no tf.train.Example") from error
        yield {name: list(entry.int64_list.value) for name, entry in feature.items()}


def _checksum(content: bytes) -> bytes:
    value = google_crc32c.value(content)
    return _CHECKSUM.pack((((value >> 15) | (value << 17)) + 0xA282EAD8) & 0xFFFFFFFF)
