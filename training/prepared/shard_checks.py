"""Checks of untrusted shards that name the damaged record.

Training checks whole blocks in its graph, see `PreparedText`; when that fails, `check_records`
finds the record for the error message.
"""

import collections
import itertools
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

from tf_transformer.errors import InputError
from tf_transformer.storage.regular_files import regular_size
from training.prepared.prepared_folder import DESCRIPTION_NAME, digest_of_file
from training.prepared.records import checked_pairs


def check_digest(path: pathlib.Path, shard: Mapping[str, Any]) -> None:
    """Compares the digest of a shard with its description.

    Args:
        path: path of the shard.
        shard: its description.

    Raises:
        InputError: the digests differ.
        OSError: the file cannot be read.
    """
    if digest_of_file(path) != shard["digest"]:
        raise InputError(f"{path}: damaged; {remedy(path.parent)}")


def check_records(
    path: pathlib.Path, shard: Mapping[str, Any], vocab_sizes: Mapping[str, int]
) -> None:
    """Checks that all records of a shard can be read and have valid ids and lengths.

    Args:
        path: path of the shard.
        shard: its description.
        vocab_sizes: vocabulary sizes of the sides that the records have.

    Raises:
        InputError: a record is invalid; the message names the first one, counted from 1.
        OSError: the file cannot be read.
    """
    lengths: collections.Counter[int] = collections.Counter()
    with open(path, "rb") as file:
        pairs = checked_pairs(file, path.stat().st_size)
        for number in itertools.count(1):
            try:
                if (pair := next(pairs, None)) is None:
                    break
                length = max(_length(pair.get(name), size) for name, size in vocab_sizes.items())
                if length >= len(shard["lengths"]):
                    raise InputError(f"{length:,} tokens, more than {DESCRIPTION_NAME} records")
            except ValueError as error:
                raise InputError(
                    f"{path}: record {number}: {error}; {remedy(path.parent)}"
                ) from error
            lengths[length] += 1
    if any(lengths[length] != count for length, count in enumerate(shard["lengths"])):
        raise InputError(
            f"{path}: its records have other lengths than {DESCRIPTION_NAME} records; "
            f"{remedy(path.parent)}"
        )


def _length(ids: Sequence[int] | None, vocab_size: int) -> int:
    if not ids:
        raise InputError("expected ids of each side, got none")
    for token in ids:
        if not 0 < token < vocab_size:
            raise InputError(f"expected ids from 1 to {vocab_size - 1}, got {token}")
    return len(ids)


def check_size(path: pathlib.Path, num_bytes: int) -> None:
    """Checks that a shard is a regular file of the right size, or a link to one.

    Raises:
        InputError: there is no such file, or it is damaged.
    """
    if not path.exists():
        raise InputError(f"{path}: no such file; {remedy(path.parent)}")
    if (size := regular_size(path)) != num_bytes:
        raise InputError(
            f"{path}: damaged, it has {size:,} bytes instead of {num_bytes:,}; "
            f"{remedy(path.parent)}"
        )


def remedy(folder: pathlib.Path) -> str:
    """Returns advice for a damaged folder, as the end of an error message."""
    return f"copy it again, or remove {folder} and prepare it again"
