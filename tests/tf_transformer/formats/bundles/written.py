"""Checkpoints of TensorFlow, written without it, so that each part can be damaged."""

import functools
import pathlib
from collections.abc import Mapping

import numpy as np

MAGIC = 0xDB4775248B80FB57
CODES = {"float32": 1, "float64": 2, "int32": 3, "int64": 9, "float16": 19}


def crc32c(data: bytes) -> int:
    """The checksum, byte by byte."""
    state = 0xFFFFFFFF
    for byte in data:
        state = state >> 8 ^ _remainder((state ^ byte) & 0xFF)
    return state ^ 0xFFFFFFFF


@functools.cache
def _remainder(byte: int) -> int:
    for _ in range(8):
        byte = byte >> 1 ^ (0x82F63B78 if byte & 1 else 0)
    return byte


def masked(data: bytes) -> bytes:
    """The checksum as it is stored."""
    crc = crc32c(data)
    return (((crc >> 15 | crc << 17) + 0xA282EAD8) % 2**32).to_bytes(4, "little")


def varint(number: int) -> bytes:
    """A number of variable size."""
    low, high = number & 0x7F, number >> 7
    return bytes([low | 0x80]) + varint(high) if high else bytes([low])


def field(number: int, value: int | bytes) -> bytes:
    """A field of a message: a number or bytes."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    return varint(number << 3 | 2) + varint(len(value)) + value


def header(num_shards: int = 1, endianness: int = 0) -> bytes:
    """The message of the first entry."""
    return field(1, num_shards) + field(2, endianness) + field(3, field(1, 1))


def entry(
    shape: tuple[int, ...],
    data: bytes,
    *,
    dtype: int = 1,
    shard: int = 0,
    offset: int = 0,
    size: int | None = None,
    more: bytes = b"",
) -> bytes:
    """The message that describes a tensor."""
    sizes = b"".join(field(2, field(1, size % 2**64)) for size in shape)
    return b"".join(
        [
            field(1, dtype),
            field(2, sizes),
            field(3, shard),
            field(4, offset),
            field(5, len(data) if size is None else size),
            varint(6 << 3 | 5) + masked(data),
            more,
        ]
    )


def block(entries: list[tuple[bytes, bytes]]) -> bytes:
    """A block of a table; keys share their beginnings."""
    content, previous = b"", b""
    for key, value in entries:
        shared = 0
        while shared < min(len(key), len(previous)) and key[shared] == previous[shared]:
            shared += 1
        content += varint(shared) + varint(len(key) - shared) + varint(len(value))
        content += key[shared:] + value
        previous = key
    return content + (0).to_bytes(4, "little") + (1).to_bytes(4, "little")


def table(entries: list[tuple[bytes, bytes]], compression: int = 0, magic: int = MAGIC) -> bytes:
    """A table of two blocks of entries, a block that lists none, and one that lists both."""
    content, handles = b"", []
    half = len(entries) // 2 + 1
    parts = [entries[:half], entries[half:], []]
    for part in parts:
        handles.append(varint(len(content)) + varint(len(block(part))))
        content += trailed(block(part), compression)
    last = [(part[-1][0] if part else b"\xff", handles[i]) for i, part in enumerate(parts[:2])]
    index = varint(len(content)) + varint(len(block(last)))
    content += trailed(block(last), compression)
    return content + (handles[2] + index).ljust(40, b"\0") + magic.to_bytes(8, "little")


def trailed(content: bytes, compression: int = 0) -> bytes:
    """A block with its trailer."""
    content += bytes([compression])
    return content + masked(content)


def write_bundle(prefix: pathlib.Path, arrays: Mapping[str, np.ndarray]) -> None:
    """Writes a checkpoint of variables in the order of their names."""
    values, entries = b"", [(b"", header())]
    for name in sorted(arrays):
        array = arrays[name]
        data = array.tobytes()
        code = CODES[array.dtype.name]
        content = entry(array.shape, data, dtype=code, offset=len(values))
        entries.append((f"{name}/.ATTRIBUTES/VARIABLE_VALUE".encode(), content))
        values += data
    prefix.with_name(f"{prefix.name}.index").write_bytes(table(entries))
    prefix.with_name(f"{prefix.name}.data-00000-of-00001").write_bytes(values)
