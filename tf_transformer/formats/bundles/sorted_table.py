"""Tables of sorted keys and values, the format of a checkpoint's index.

The format is LevelDB's, as in TensorFlow's `lib/io/format.cc` and `block.cc`: blocks of entries
whose keys share their beginning with the key before, each block with a checksum; a block that lists
the others; and at the end a footer with that block's place.
"""

from collections.abc import Iterator

import numpy as np

from tf_transformer.formats.bundles.crc32c import crc32c, unmasked
from tf_transformer.formats.bundles.wire_format import read_varint
from tf_transformer.formats.tensors.stored_file import FormatError, StoredFile
from tf_transformer.printable import shown

_MAGIC = (0xDB4775248B80FB57).to_bytes(8, "little")
_FOOTER_BYTES = 48
# After a block: its compression, and a checksum of both.
_TRAILER_BYTES = 5
_UNCOMPRESSED = 0
# The index of a model of 100 layers, with two values of the optimizer for each weight, has 1 MB.
_MAX_BYTES = 2**25
_MAX_KEY_BYTES = 1_000
_MAX_ENTRIES = 2**18


def is_table(file: StoredFile) -> bool:
    """Returns whether a file ends as a table does."""
    return file.size >= _FOOTER_BYTES and file.read(file.size - 8, 8) == _MAGIC


def read_table(file: StoredFile) -> Iterator[tuple[bytes, bytes]]:
    """Yields the keys and values of a table.

    Raises:
        FormatError: it is no table, damaged, too large, or compressed.
    """
    if not is_table(file):
        raise FormatError("expected the index of a checkpoint of TensorFlow, or it was cut off")
    if file.size > _MAX_BYTES:
        raise FormatError(f"expected at most {_MAX_BYTES:,} bytes, got {file.size:,}")
    footer = file.read(file.size - _FOOTER_BYTES, _FOOTER_BYTES)
    _, position = _handle(footer, 0)  # of a block with statistics, which TensorFlow leaves empty
    (begin, size), _ = _handle(footer, position)
    num_entries = num_bytes = 0
    previous = None
    for _, handle in _entries(_block(file, begin, size)):
        (begin, size), _ = _handle(handle, 0)
        num_bytes += size
        if num_bytes > file.size:
            raise FormatError("damaged: blocks of the index overlap")
        for key, value in _entries(_block(file, begin, size)):
            num_entries += 1
            if num_entries > _MAX_ENTRIES:
                raise FormatError(f"more than {_MAX_ENTRIES:,} entries")
            if previous is not None and key <= previous:
                raise FormatError(f"damaged: the name {shown(key)} is not in its order")
            previous = key
            yield key, value


def _handle(content: bytes, position: int) -> tuple[tuple[int, int], int]:
    """Returns the begin and the size of a block, and the position after both."""
    begin, position = read_varint(content, position)
    size, position = read_varint(content, position)
    return (begin, size), position


def _block(file: StoredFile, begin: int, size: int) -> bytes:
    content = file.read(begin, size + _TRAILER_BYTES)
    checked, stored = content[:-4], int.from_bytes(content[-4:], "little")
    if crc32c(np.frombuffer(checked, np.uint8)) != unmasked(stored):
        raise FormatError("damaged: the checksum of a block of the index is wrong")
    if checked[-1] != _UNCOMPRESSED:
        raise FormatError("a compressed index is not supported; TensorFlow writes none")
    return checked[:-1]


def _entries(block: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Yields the entries of a block, after which it lists those with a complete key."""
    num_restarts = int.from_bytes(block[-4:], "little")
    end = len(block) - 4 * (num_restarts + 1)
    if end < 0:
        raise FormatError("damaged: a block of the index is too short")
    key, position = b"", 0
    while position < end:
        num_shared, position = read_varint(block, position)
        num_own, position = read_varint(block, position)
        num_value, position = read_varint(block, position)
        value_begin = position + num_own
        if num_shared > len(key) or value_begin + num_value > end:
            raise FormatError("damaged: an entry of the index is too long")
        if num_shared + num_own > _MAX_KEY_BYTES:
            raise FormatError(f"a name of {num_shared + num_own:,} bytes is too long")
        key = key[:num_shared] + block[position:value_begin]
        position = value_begin + num_value
        yield key, block[value_begin:position]
