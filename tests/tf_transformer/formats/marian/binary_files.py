"""Marian's binary models and shortlists, written without the code under test.

The rules are those of `src/tensors/cpu/expression_graph_packable.h`, `src/common/binary.cpp` and
`src/data/shortlist.cpp` of browsermt/marian-dev and of marian-nmt/marian-dev.
"""

import struct
from typing import NamedTuple

import numpy as np

TYPES = {"float16": 0x402, "float32": 0x404, "int8": 0x101}
# The types of quantized matrices of both repositories.
INTGEMM = {"browsermt": {8: 0x4101, 16: 0x4102}, "marian-nmt": {8: 0x10001, 16: 0x10002}}


class Item(NamedTuple):
    name: str
    type: int
    shape: tuple[int, ...]
    content: bytes


def plain(name, array, padded=True):
    array = np.ascontiguousarray(array)
    return Item(name, TYPES[array.dtype.name], array.shape, _padded(array.tobytes(), padded))


def _padded(content, padded):
    """Values in whole blocks, so that all begin where a memory map can be used."""
    return content + bytes(-len(content) % 256 if padded else 0)


def is_quantized(name, origin):
    """Matrices by their names; embeddings in browsermt's files only."""
    position = name.find("_W")
    is_matrix = position >= 0 and position in (len(name) - 3, len(name) - 2)
    return is_matrix or (origin == "browsermt" and "Wemb" in name)


def quantize(array, bits=8):
    """The integers of a matrix, and what it was multiplied by."""
    scale = np.float32(127 / np.abs(array).max()) if bits == 8 else np.float32(1024)
    most = 2 ** (bits - 1) - 1
    integers = np.clip(np.rint(array * scale), -most, most).astype(f"int{bits}")
    return integers, scale


def expanded(array, bits=8):
    """What a quantized matrix stands for, as Marian expands embeddings."""
    integers, scale = quantize(array, bits)
    return integers * (np.float32(1) / scale)


def quantized(name, array, origin="browsermt", bits=8, padded=True):
    integers, scale = quantize(array, bits)
    as_stored = integers if origin == "browsermt" and "Wemb" in name else integers.T
    content = np.ascontiguousarray(as_stored).tobytes() + scale.tobytes()
    return Item(name, INTGEMM[origin][bits], array.shape, _padded(content, padded))


def model_items(arrays, origin=None, bits=8, alphas=False, dtype="float32"):
    """The items of a model: quantized as by `origin`, or in `dtype` if it is None."""
    scale = np.full((1, 1), 31.5, "float32")
    # The scale of the input of the logits, whose matrix a shortlist makes.
    items = [plain("none_QuantMultA", scale)] if alphas else []
    for name, array in sorted(arrays.items()):
        if name.startswith("special:"):
            continue
        if origin is not None and is_quantized(name, origin):
            items.append(quantized(name, array, origin, bits))
            if alphas:
                add = quantized if "Wemb" in name else plain
                items.append(add(f"{name}_QuantMultA", scale))
        else:
            items.append(plain(name, array.astype(dtype)))
    items += [plain(name, array) for name, array in arrays.items() if name.startswith("special:")]
    return items


def as_binary(items, version=1):
    """The content of a binary model."""
    parts = [struct.pack("<2Q", version, len(items))]
    parts += [
        struct.pack("<4Q", len(x.name) + 1, x.type, len(x.shape), len(x.content)) for x in items
    ]
    parts += [x.name.encode() + b"\0" for x in items]
    parts += [struct.pack(f"<{len(x.shape)}i", *x.shape) for x in items]
    position = sum(map(len, parts))
    padding = ((position + 8) // 256 + 1) * 256 - position - 8
    parts += [struct.pack("<Q", padding), bytes(padding), *(x.content for x in items)]
    return b"".join(parts)


def checksum(content):
    """That of a shortlist: `hashMem` in src/common/hash.h."""
    seed = 0
    for (word,) in struct.iter_unpack("<Q", content[: len(content) // 8 * 8]):
        seed ^= (word + 0x9E3779B9 + (seed << 6) + (seed >> 2)) % 2**64
    return seed


def as_shortlist(rows, first=5, best=50, **header):
    """The content of a binary shortlist.

    Args:
        rows: the target ids of each source id.
        first: number of ids that are always candidates.
        best: limit of the candidates of an id.
        **header: `magic`, `checksum`, `num_offsets` or `count` other than they are.
    """
    offsets = np.cumsum([0, *map(len, rows)])
    sizes = (header.get("num_offsets", len(offsets)), header.get("count", offsets[-1]))
    content = struct.pack("<4Q", first, best, *sizes) + offsets.astype("<u8").tobytes()
    content += np.array([target for row in rows for target in sorted(row)], "<u4").tobytes()
    magic = header.get("magic", 0xF11A48D5013417F5)
    return struct.pack("<2Q", magic, header.get("checksum", checksum(content))) + content
