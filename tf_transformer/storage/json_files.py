"""JSON files: writing, and reading of untrusted ones."""

import collections
import json
import math
import pathlib
from typing import Any, NoReturn

from tf_transformer.errors import InputError
from tf_transformer.printable import shown
from tf_transformer.storage.regular_files import read_regular
from tf_transformer.text.reading import decode_text

# About a thousand times the size of the project's largest settings file.
MAX_BYTES = 2**20


def read_json(
    path: pathlib.Path, max_bytes: int = MAX_BYTES, *, unique_keys: bool = False
) -> dict[str, Any]:
    """Reads a file that contains one JSON object.

    Args:
        path: the file.
        max_bytes: maximum size.
        unique_keys: see `parse_json`.

    Raises:
        InputError: it is not a regular file, is too large, is not a JSON object in UTF-8, is nested
            too deeply, or has a number that is not finite, an integer of more than 64 bits, or a
            repeated key.
        FileNotFoundError: the file does not exist.
    """
    return parse_json(read_regular(path, max_bytes), path, unique_keys=unique_keys)


def parse_json(
    content: bytes, where: object, *, unique_keys: bool = False, large_integers: bool = False
) -> dict[str, Any]:
    """Parses one JSON object.

    Args:
        content: the object in UTF-8; a byte order mark before it is ignored, which RFC 8259 allows.
        where: its file, for the error message.
        unique_keys: refuse objects with a key twice, of which otherwise the last counts.
        large_integers: accept integers of more than 64 bits.

    Raises:
        InputError: as `read_json`.
    """
    text = decode_text(content, where)
    try:
        value = json.loads(
            text,
            parse_constant=_refuse,
            parse_float=_finite,
            parse_int=None if large_integers else _of_64_bits,
            object_pairs_hook=_of_unique_keys if unique_keys else None,
        )
    except RecursionError as error:
        raise InputError(f"{where}: not JSON that can be read (nested too deeply)") from error
    except ValueError as error:
        raise InputError(f"{where}: not JSON ({error})") from error
    if not isinstance(value, dict):
        raise InputError(f"{where}: expected a JSON object, got {type(value).__name__}")
    return value


def write_json(path: pathlib.Path, value: Any, indent: int | None = 2) -> None:
    """Writes a value as JSON in UTF-8, which `read_json` can read.

    Args:
        path: the file to write; an existing file is overwritten.
        value: dictionaries, lists, strings, finite numbers, booleans and None. Strings may contain
            surrogates for bytes of file names that are not UTF-8, as `os.fsdecode` returns them.
        indent: spaces per level; None writes a single line.

    Raises:
        ValueError: a number is not finite.
    """
    text = json.dumps(value, indent=indent, ensure_ascii=False, allow_nan=False)
    # Surrogates become JSON escapes.
    path.write_text(f"{text}\n", encoding="utf-8", errors="backslashreplace")


def _refuse(constant: str) -> NoReturn:
    raise InputError(f"{constant} is no JSON number")


def _of_unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) != len(pairs):
        counts = collections.Counter(key for key, _ in pairs)
        raise InputError(f"the key {shown(counts.most_common(1)[0][0])} is repeated")
    return value


def _of_64_bits(number: str) -> int:
    value = int(number)
    if not -(2**63) <= value < 2**63:
        raise InputError(f"an integer of {len(number)} characters is too large")
    return value


def _finite(number: str) -> float:
    value = float(number)
    if not math.isfinite(value):
        raise InputError(f"a number of {len(number)} characters is too large")
    return value
