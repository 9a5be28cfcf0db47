"""Files of tensors assembled byte by byte: what other programs write, and what none would."""

import io
import json
import struct
import zipfile

import numpy as np

# ---- Values in a pickle ----

NONE = b"N"


def text(value: str) -> bytes:
    content = value.encode("utf-8", "surrogatepass")
    return b"X" + struct.pack("<I", len(content)) + content


def number(value: int) -> bytes:
    if -(2**31) <= value < 2**31:
        return b"J" + struct.pack("<i", value)
    size = value.bit_length() // 8 + 1
    return b"\x8a" + bytes([size]) + value.to_bytes(size, "little", signed=True)


def name(full_name: str) -> bytes:
    module, _, attribute = full_name.rpartition(".")
    return f"c{module}\n{attribute}\n".encode()


def sequence(*items: bytes) -> bytes:
    return b"(" + b"".join(items) + b"t"


def numbers(*values: int) -> bytes:
    return sequence(*map(number, values))


def listing(*items: bytes) -> bytes:
    return b"](" + b"".join(items) + b"e"


def mapping(**entries: bytes) -> bytes:
    return b"}(" + b"".join(text(key) + value for key, value in entries.items()) + b"u"


def call(function: str, *arguments: bytes) -> bytes:
    return name(function) + sequence(*arguments) + b"R"


def latin(content: bytes) -> bytes:
    return call("_codecs.encode", text(content.decode("latin1")), text("latin1"))


def storage(key: str, size: int, kind: str = "torch.FloatStorage", *rest: bytes) -> bytes:
    return sequence(text("storage"), name(kind), text(key), text("cpu"), number(size), *rest) + b"Q"


def tensor(
    key="0", shape=(2, 3), strides=None, start=0, size=6, kind="torch.FloatStorage", rest=()
) -> bytes:
    """A tensor as `torch.save` writes it, of a storage of `size` values."""
    if strides is None:
        strides = [int(np.prod(shape[axis + 1 :])) for axis in range(len(shape))]
    hooks = call("collections.OrderedDict")
    values = storage(key, size, kind, *rest)
    function = "torch._utils._rebuild_tensor_v2"
    return call(function, values, number(start), numbers(*shape), numbers(*strides), b"\x89", hooks)


def pickled(value: bytes) -> bytes:
    return b"\x80\x02" + value + b"."


# ---- Files ----

SIX = np.arange(6, dtype="<f4")


def archive(members: dict[str, bytes], compression: int = zipfile.ZIP_STORED) -> bytes:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", compression) as file:
        for member, values in members.items():
            file.writestr(member, values)
    return content.getvalue()


def torch_zip(value: bytes, storages: dict[str, bytes] | None = None, **members: bytes) -> bytes:
    """A file of PyTorch since 1.6, by default with a storage "0" of six values."""
    storages = {"0": SIX.tobytes()} if storages is None else storages
    return archive(
        {"m/data.pkl": pickled(value), "m/version": b"3\n"}
        | {f"m/{member}": content for member, content in members.items()}
        | {f"m/data/{key}": content for key, content in storages.items()}
    )


MAGIC = pickled(b"\x8a\x0al\xfc\x9cF\xf9 j\xa8P\x19") + pickled(number(1001))


def torch_legacy(value: bytes, storages: dict[str, np.ndarray] | None = None) -> bytes:
    """A file of PyTorch before 1.6, by default with a storage "0" of six values."""
    storages = {"0": SIX} if storages is None else storages
    machine = mapping(little_endian=b"\x88")
    content = MAGIC + pickled(machine) + pickled(value) + pickled(listing(*map(text, storages)))
    return content + b"".join(
        struct.pack("<q", values.size) + values.tobytes() for values in storages.values()
    )


def safetensors(header: dict | bytes, values: bytes = b"") -> bytes:
    content = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(content)) + content + values


def npy(descr: str, shape: str, values: bytes, fortran: bool = False, version: int = 1) -> bytes:
    header = f"{{'descr': {descr!r}, 'fortran_order': {fortran}, 'shape': {shape}, }}\n".encode()
    size = struct.pack("<H" if version == 1 else "<I", len(header))
    return b"\x93NUMPY" + bytes([version, 0]) + size + header + values


def array_entry(dtype: str, shape, begin: int, end: int) -> dict:
    """An entry in the header of a safetensors file."""
    return {"dtype": dtype, "shape": list(shape), "data_offsets": [begin, end]}
