"""Files of PyTorch, written without it."""

import argparse
import pathlib
import struct

import numpy as np

from tests.tf_transformer.formats.tensors import written

NUMPY_KINDS = {"float32": "torch.FloatStorage", "int64": "torch.LongStorage"}


class Code(bytes):
    """Instructions of a pickle, written as they are."""


def write_torch(path: pathlib.Path, root: object) -> None:
    """Writes what `torch.save` writes for dicts, lists, tuples, values, namespaces and arrays."""
    storages: dict[str, bytes] = {}
    path.write_bytes(written.torch_zip(_pickled(root, storages), storages))


def _pickled(value: object, storages: dict[str, bytes]) -> bytes:
    match value:
        case Code():
            return bytes(value)
        case None:
            return written.NONE
        case bool():
            return b"\x88" if value else b"\x89"
        case int():
            return written.number(value)
        case float():
            return b"G" + struct.pack(">d", value)
        case str():
            return written.text(value)
        case dict():
            items = ((_pickled(k, storages), _pickled(v, storages)) for k, v in value.items())
            return b"}(" + b"".join(key + content for key, content in items) + b"u"
        case list():
            return written.listing(*(_pickled(item, storages) for item in value))
        case argparse.Namespace():
            attributes = _pickled(vars(value), storages)
            return written.name("argparse.Namespace") + b")\x81" + attributes + b"b"
        case np.ndarray():
            key = str(len(storages))
            storages[key] = value.tobytes()
            kind = NUMPY_KINDS[value.dtype.name]
            return written.tensor(key, value.shape, size=value.size, kind=kind)
    raise TypeError(type(value))


def random_arrays(shapes: dict[str, tuple[int, ...]]) -> dict[str, np.ndarray]:
    """Returns random float32 arrays of these shapes."""
    random = np.random.default_rng(1)
    return {name: random.normal(0, 0.3, shape).astype("float32") for name, shape in shapes.items()}


def running(path: pathlib.Path) -> Code:
    """A pickle that would write a file if it were run."""
    return Code(written.call("os.system", written.text(f"touch {path}")))
