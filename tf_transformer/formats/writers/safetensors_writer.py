"""Writing of safetensors files, one array after the other."""

import json
import math
import pathlib
from collections.abc import Iterable, Mapping

import numpy as np

from tf_transformer.storage.files import replacing
from tf_transformer.storage.weight_shapes import Shapes

# Name of each type in the format, and its layout.
_CODES = {"float32": "F32", "int16": "I16", "bfloat16": "BF16"}
_LAYOUTS: dict[str, np.dtype] = {
    "float32": np.dtype("<f4"),
    "int16": np.dtype("<i2"),
    "bfloat16": np.dtype("<u2"),
}
# The header's length is stored in 8 bytes, and the header is padded with spaces to a multiple of 8.
_ALIGNMENT = 8


def write_safetensors(
    path: pathlib.Path,
    shapes: Shapes,
    arrays: Iterable[tuple[str, np.ndarray]],
    dtypes: Mapping[str, str] | None = None,
) -> None:
    """Writes arrays, and replaces an existing file.

    Args:
        path: the file.
        shapes: shape of each array by name, in the order of `arrays`.
        arrays: name and value of each array.
        dtypes: "float32", "int16", or "bfloat16", whose bits are given as uint16, for each array;
            None for float32.

    Raises:
        RuntimeError: `arrays` are not those of `shapes`.
    """
    header: dict[str, object] = {"__metadata__": {"format": "pt"}}
    dtypes = dtypes or dict.fromkeys(shapes, "float32")
    begin = 0
    for name, shape in shapes.items():
        dtype = dtypes[name]
        end = begin + _LAYOUTS[dtype].itemsize * math.prod(shape)
        header[name] = {"dtype": _CODES[dtype], "shape": list(shape), "data_offsets": [begin, end]}
        begin = end
    content = json.dumps(header).encode()
    content += b" " * (-len(content) % _ALIGNMENT)
    with replacing(path) as temporary, open(temporary, "wb") as file:
        file.write(len(content).to_bytes(_ALIGNMENT, "little"))
        file.write(content)
        for (name, array), expected in zip(arrays, shapes.items(), strict=True):
            if (name, array.shape) != expected:
                raise RuntimeError(f"expected {expected}, got {(name, array.shape)}")
            file.write(np.ascontiguousarray(array, _LAYOUTS[dtypes[name]]).data)
