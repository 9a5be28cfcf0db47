"""Models whose files are compressed by gzip, as in the repository of Firefox's models."""

import gzip
import pathlib
import tempfile
import zlib

from tf_transformer.errors import InputError
from tf_transformer.formats.marian.binary_model import begins_like_marian
from tf_transformer.storage.regular_files import regular_size

_SUFFIX = ".gz"
# What is read, with the suffixes of models, vocabularies, shortlists and settings.
_COMPRESSED = (".bin", ".npz", ".spm")
_OTHERS = (*_COMPRESSED, ".yml", ".yaml", ".json")
_MAX_FILES = 100
# Weights shrink little, shortlists to a quarter: what unpacks to much more is no model.
_LARGEST_RATIO = 8
_SMALL_BYTES = 2**20
_CHUNK_BYTES = 2**20


def has_compressed_files(path: pathlib.Path) -> bool:
    """Returns whether a model, or the model of a folder, is compressed by gzip."""
    if not path.is_dir():
        return _is_compressed_model(path)
    names = {file.name for file in path.iterdir()}
    packed = sorted(path.glob(f"*{_SUFFIX}"))[:_MAX_FILES]
    found = [file.name.removesuffix(_SUFFIX) for file in packed if _is_compressed_model(file)]
    return bool(found) and names.isdisjoint(found)


def _is_compressed_model(path: pathlib.Path) -> bool:
    if not _is_compressed(path):
        return False
    try:
        with gzip.open(path, "rb") as file:
            begin = file.read(16)
    except (gzip.BadGzipFile, EOFError, zlib.error):
        return False
    size = _LARGEST_RATIO * regular_size(path)
    return path.stem.endswith(".npz") or begins_like_marian(begin, size)


def unpack(folder: pathlib.Path) -> tempfile.TemporaryDirectory:
    """Unpacks the files of a model into a temporary folder, which its object removes.

    Files that are not compressed are links there.

    Args:
        folder: the folder.

    Raises:
        InputError: a file is damaged, or unpacks to more than 8 times its size.
    """
    result = tempfile.TemporaryDirectory(prefix="marian-")
    files = sorted(folder.iterdir())
    if len(files) > _MAX_FILES:
        raise InputError(f"{folder}: expected at most {_MAX_FILES} files, found {len(files):,}")
    for file in files:
        if file.suffix in _OTHERS:
            pathlib.Path(result.name, file.name).symlink_to(file.resolve())
    for file in files:
        target = pathlib.Path(result.name, file.name.removesuffix(_SUFFIX))
        if _is_compressed(file) and not target.is_symlink():
            _unpack(file, target)
    return result


def _is_compressed(path: pathlib.Path) -> bool:
    if path.suffix != _SUFFIX or pathlib.Path(path.stem).suffix not in _COMPRESSED:
        return False
    if not path.is_file():
        return False
    with open(path, "rb") as file:
        return file.read(2) == b"\x1f\x8b"


def _unpack(source: pathlib.Path, target: pathlib.Path) -> None:
    limit = max(_LARGEST_RATIO * regular_size(source), _SMALL_BYTES)
    size = 0
    try:
        with gzip.open(source, "rb") as packed, open(target, "xb") as file:
            while content := packed.read(_CHUNK_BYTES):
                size += len(content)
                if size > limit:
                    raise InputError(
                        f"{source}: unpacks to more than {limit:,} bytes; expected at most "
                        f"{_LARGEST_RATIO} times its size"
                    )
                file.write(content)
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise InputError(f"{source}: damaged, or cut off: gzip cannot unpack it") from error
