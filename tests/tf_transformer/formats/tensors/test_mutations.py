"""Files with random changes are either refused or give tensors of the shapes that they declare."""

import random
import zipfile

import pytest

from tests.tf_transformer.formats.tensors.written import (
    SIX,
    archive,
    array_entry,
    call,
    listing,
    mapping,
    name,
    npy,
    number,
    safetensors,
    storage,
    tensor,
    text,
    torch_legacy,
    torch_zip,
)
from tf_transformer.errors import InputError
from tf_transformer.formats.tensors.opening import open_tensors, read_torch_tree

STATE = mapping(
    **{"layer.0.weight": tensor(), "layer.0.bias": tensor("0", (3,), (1,), 2)},
    transposed=tensor("0", (3, 2), (1, 3)),
    parameter=call("torch._utils._rebuild_parameter", tensor("0", (6,)), b"\x88", b"}"),
)
TREE = mapping(
    model=STATE,
    args=name("argparse.Namespace") + b")\x81" + mapping(layers=number(6), name=text("big")) + b"b",
    history=listing(number(1), b"G?\xf0\0\0\0\0\0\0", b"N", b"\x88"),
    counts=call("collections.Counter", mapping(a=number(1))),
)
HEADER = {
    "a": array_entry("F32", (2, 3), 0, 24),
    "b": array_entry("I64", (3,), 24, 48),
    "__metadata__": {"format": "pt"},
}
ARRAYS = {"a.npy": npy("<f4", "(2, 3)", SIX.tobytes()), "b.npy": npy("<f4", "(6,)", SIX.tobytes())}
FORMATS = {
    "safetensors": safetensors(HEADER, SIX.tobytes() * 2),
    "torch_zip": torch_zip(STATE, byteorder=b"little"),
    "torch_legacy": torch_legacy(STATE),
    "tree_zip": torch_zip(TREE),
    "tree_legacy": torch_legacy(TREE),
    "npz": archive(ARRAYS),
    "npz_deflated": archive(ARRAYS, zipfile.ZIP_DEFLATED),
    "index": b'{"metadata": {"note": "'
    + b"text " * 10
    + b'"}, "weight_map": {"a": "model.safetensors", "b": "model.safetensors"}}',
}
# Ends of integer ranges, and instructions of pickles.
BYTES = b"\0\1\x7f\x80\xff" + b"(.RbcQtu\x81\x85\x86\x93\x94})]h"


def mutated(content: bytes, generator: random.Random) -> bytes:
    changed = bytearray(content)
    for _ in range(generator.choice([1, 1, 1, 2, 4, 8])):
        at = generator.randrange(len(changed))
        match generator.randrange(6):
            case 0:
                changed[at] ^= 1 << generator.randrange(8)
            case 1:
                changed[at] = generator.choice(BYTES)
            case 2:
                del changed[at : at + generator.randrange(1, 9)]
            case 3:
                changed[at:at] = bytes(generator.choices(BYTES, k=generator.randrange(1, 9)))
            case 4:
                begin = generator.randrange(len(changed))
                changed[at:at] = changed[begin : begin + generator.randrange(1, 40)]
            case 5:
                changed[at] = generator.randrange(256)
        if not changed:
            break
    return bytes(changed)


def read_all(path) -> int:
    """Reads all tensors of a file, compares their shapes, and returns their number."""
    if path.stem.startswith("tree"):
        to_visit, tensors = [read_torch_tree(path)], []
        while to_visit:
            value = to_visit.pop()
            if isinstance(value, dict):
                to_visit += value.values()
            elif isinstance(value, list | tuple):
                to_visit += value
            elif hasattr(value, "read"):
                tensors.append(value)
        for value in tensors:
            assert value.read().shape == value.shape
        return len(tensors)
    with open_tensors(path) as file:
        for tensor_name, shape in file.shapes.items():
            assert file[tensor_name].shape == shape
        return len(file)


@pytest.mark.parametrize("kind", FORMATS)
def test_changed_files(tmp_path, kind):
    generator = random.Random(f"tensors {kind}")
    (tmp_path / "model.safetensors").write_bytes(FORMATS["safetensors"])
    path = tmp_path / f"{kind}.bin"
    path.write_bytes(FORMATS[kind])
    assert read_all(path) > 1
    results = {"read": 0, "refused": 0}
    for _ in range(300):
        path.write_bytes(mutated(FORMATS[kind], generator))
        try:
            read_all(path)
            results["read"] += 1
        except InputError as error:
            assert str(error).startswith(str(tmp_path))
            assert "\n" not in str(error)
            results["refused"] += 1
        except FileNotFoundError:
            assert kind == "index"
    assert min(results.values()) > 5  # both happen


def test_random_pickles(tmp_path):
    """Instructions in any order, with arguments that are no noise."""
    generator = random.Random(0)
    parts = [
        *(b"N", b"\x88", b"(", b"t", b"]", b"a", b"e", b"}", b"s", b"u", b"R", b"b", b"\x81", b"Q"),
        *(b"\x85", b"\x86", b"\x87", b"\x93", b"\x94", b"q\0", b"h\0", b"\x8f", b"\x90", b"\x91"),
        *(
            number(3),
            number(-1),
            number(2**62),
            text("a"),
            text("storage"),
            text("0"),
            text("torch"),
        ),
        *(
            name("torch._utils._rebuild_tensor_v2"),
            name("collections.OrderedDict"),
            storage("0", 6),
        ),
        *(name("argparse.Namespace"), name("torch.Size"), name("numpy.dtype"), tensor(), b")"),
        *(name("numpy.core.multiarray._reconstruct"), name("copyreg._reconstructor"), text("f8")),
    ]
    path = tmp_path / "tree.bin"
    num_read = 0
    for _ in range(500):
        value = b"".join(generator.choices(parts, k=generator.randrange(1, 12)))
        path.write_bytes(torch_legacy(value, {"0": SIX} if b"Q" in value else {}))
        try:
            read_all(path)
            num_read += 1
        except InputError as error:
            assert "\n" not in str(error)
    assert num_read > 5
