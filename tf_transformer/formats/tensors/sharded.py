"""Models in several files, with an index that says which tensor is in which file.

    {"metadata": {...}, "weight_map": {"model.shared.weight": "model-00001-of-00002.safetensors"}}

`model.safetensors.index.json` and `pytorch_model.bin.index.json` are such indexes.
"""

import os
import pathlib

from tf_transformer.errors import InputError
from tf_transformer.formats.tensors.stored_file import FormatError, StoredFile
from tf_transformer.printable import shown
from tf_transformer.storage.json_files import parse_json

_MAX_INDEX_BYTES = 2**24  # as the header of a safetensors file, which holds the same names
_MAX_FILES = 256  # all are open at the same time


def read_index(file: StoredFile) -> dict[str, list[str]]:
    """Returns the names of the tensors in each file that an index names.

    Raises:
        FormatError: it is not an index, is too large, or names a file that is not in its folder.
    """
    if file.size > _MAX_INDEX_BYTES:
        raise FormatError(f"expected an index of at most {_MAX_INDEX_BYTES:,} bytes")
    try:
        index = parse_json(file.read(0, file.size), "the index", unique_keys=True)
    except InputError as error:
        raise FormatError(str(error)) from error
    weight_map = index.get("weight_map")
    if not isinstance(weight_map, dict) or not weight_map:
        raise FormatError("expected JSON with a weight_map from names of tensors to names of files")
    names: dict[str, list[str]] = {}
    for name, shard in weight_map.items():
        if not isinstance(shard, str) or not _is_file_name(shard):
            raise FormatError(f"expected the name of a file in the same folder, got {shown(shard)}")
        names.setdefault(shard, []).append(name)
    if len(names) > _MAX_FILES:
        raise FormatError(f"expected at most {_MAX_FILES} files, got {len(names):,}")
    return names


def _is_file_name(name: str) -> bool:
    return (
        name.isprintable()
        and name not in ("", ".", "..")
        and not any(separator in name for separator in "/\\:")
    )


def shard_path(index_path: pathlib.Path, name: str) -> pathlib.Path:
    """Returns the path of a file that an index names.

    Args:
        index_path: path of the index.
        name: name of the file.

    Raises:
        FormatError: it is a link that leads elsewhere than to the folder of the index. In the
            caches of model hubs both are links to files in another folder, which is allowed, too.
    """
    path = index_path.parent / name
    folders = {os.path.realpath(index_path.parent), os.path.dirname(os.path.realpath(index_path))}
    if os.path.dirname(os.path.realpath(path)) not in folders:
        raise FormatError(f"{shown(name)} is a link to another folder")
    return path
