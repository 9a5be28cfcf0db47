"""Opening files of tensors, whose format is recognized by their content."""

import contextlib
import pathlib
from collections.abc import Iterator, Mapping
from typing import Any

from tf_transformer.formats.foreign_content import NUM_BYTES, describe
from tf_transformer.formats.tensors.npz import read_npz
from tf_transformer.formats.tensors.safetensors_format import is_safetensors, read_safetensors
from tf_transformer.formats.tensors.sharded import read_index, shard_path
from tf_transformer.formats.tensors.stored_file import FormatError, StoredFile, naming
from tf_transformer.formats.tensors.tensor_file import StoredTensor, Tensor, TensorFile
from tf_transformer.formats.tensors.torch_format import (
    is_legacy_torch,
    is_torch_zip,
    read_legacy_torch,
    read_torch_zip,
)
from tf_transformer.formats.tensors.zip_archive import is_zip, read_directory
from tf_transformer.printable import shown


def open_tensors(path: pathlib.Path) -> TensorFile:
    """Opens a file of tensors, checks what it declares, and reads no values yet.

    Supported are safetensors; a `state_dict` that `torch.save` wrote, in the ZIP format and the one
    before PyTorch 1.6; NumPy's .npz; and the indexes of models in several files of the first two.
    No code of the file is executed, and PyTorch is not needed.

    Args:
        path: the file, or the index.

    Returns:
        The tensors by name. They are read when they are accessed.

    Raises:
        InputError: the file is of another format, damaged, not a regular file, or declares what it
            does not hold.
        FileNotFoundError: it does not exist.
    """
    with _opened(path) as file:
        if _is_json(file):
            return _open_shards(file)
        return TensorFile(path, _tensors(file), [file])


def read_torch_tree(path: pathlib.Path) -> Any:
    """Returns the object that `torch.save` wrote, without the values of its tensors.

    Args:
        path: the file, such as a checkpoint of fairseq or OpenNMT-py.

    Returns:
        The object of nested dicts (with keys of type str and int), lists, tuples, str, int, float,
        bool, None and bytes, and a `Tensor` for each tensor and NumPy array, whose `read` reads
        the values. Instances of `argparse.Namespace` and of the other known classes are dicts of
        their attributes, sets are lists, and functions, classes and dtypes are their full names.

    Raises:
        InputError: the file is of another format, damaged, not a regular file, declares what it
            does not hold, or contains anything else, named in the message. The same, when a tensor
            is read and the file has been changed.
        FileNotFoundError: it does not exist.
    """
    with _opened(path) as file:
        if is_zip(file):
            return read_torch_zip(file, _torch_members(file))
        if is_legacy_torch(file):
            return read_legacy_torch(file)
        raise FormatError("expected a file that torch.save wrote")


def pickle_begin(path: pathlib.Path, num_bytes: int) -> bytes:
    """Returns the first bytes of the pickle in a file that `torch.save` wrote.

    Names in them tell which program wrote the file; they are not interpreted.

    Args:
        path: the file.
        num_bytes: number of bytes, or fewer if there are no more.

    Raises:
        InputError: the file is of another format, damaged, or not a regular file.
        FileNotFoundError: it does not exist.
    """
    with _opened(path) as file, contextlib.closing(file):
        if not is_zip(file) and not is_legacy_torch(file):
            raise FormatError("expected a file that torch.save wrote")
        if not is_zip(file):
            return file.read(0, min(num_bytes, file.size))
        members = _torch_members(file)
        member = next(item for name, item in members.items() if name.endswith("/data.pkl"))
        return file.read(member.begin, min(num_bytes, member.num_stored))


@contextlib.contextmanager
def _opened(path: pathlib.Path) -> Iterator[StoredFile]:
    """Opens a file, which stays open unless an exception is raised."""
    with naming(path):
        file = StoredFile(path)
        try:
            yield file
        except BaseException:
            file.close()
            raise


def _torch_members(file: StoredFile) -> dict:
    members = read_directory(file)
    if not is_torch_zip(members):
        raise FormatError("expected a file that torch.save wrote, got another ZIP archive")
    return members


def _is_json(file: StoredFile) -> bool:
    return file.read(0, min(file.size, 100)).lstrip()[:1] == b"{" and not is_safetensors(file)


def _tensors(file: StoredFile) -> Mapping[str, Tensor]:
    if is_zip(file):
        members = read_directory(file)
        if is_torch_zip(members):
            return _state_dict(read_torch_zip(file, members))
        return read_npz(file, members)
    if is_legacy_torch(file):
        return _state_dict(read_legacy_torch(file))
    if is_safetensors(file):
        return read_safetensors(file)
    found = describe(file.read(0, min(file.size, NUM_BYTES)))
    raise FormatError(
        "expected safetensors, a file that torch.save wrote, an .npz archive, or the JSON index "
        "of a model in several files" + (found and f"; this is {found}")
    )


def _state_dict(root: Any) -> dict[str, StoredTensor]:
    if not isinstance(root, dict):
        raise FormatError(f"expected a dict of tensors, got {type(root).__name__}")
    for name, value in root.items():
        if not isinstance(name, str) or not isinstance(value, StoredTensor):
            kind = type(value).__name__
            raise FormatError(f"expected a dict of tensors, but {shown(name)} is of type {kind}")
    return root


def _open_shards(index: StoredFile) -> TensorFile:
    names_of = read_index(index)
    index.close()
    found: dict[str, Tensor] = {}
    files = []
    with contextlib.ExitStack() as on_error:
        for shard, names in names_of.items():
            file = StoredFile(shard_path(index.path, shard))
            on_error.callback(file.close)
            files.append(file)
            with naming(file.path):
                tensors = _tensors(file)
            if set(tensors) != set(names):
                name = min(set(tensors) ^ set(names))
                where = "the file" if name in names else "the index"
                raise FormatError(f"{shown(name)} of {shown(shard)} is missing in {where}")
            found |= tensors
        on_error.pop_all()
    in_order = {name: found[name] for names in names_of.values() for name in names}
    return TensorFile(index.path, in_order, files)
