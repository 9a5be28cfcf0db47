"""JSON files: how all are written, and how untrusted ones are read."""

import json
import math
import pathlib
from typing import Any, NoReturn

from tf_transformer.errors import InputError
from tf_transformer.storage.regular_files import read_regular

# Settings and descriptions are a thousandth of it.
MAX_BYTES = 2**20


def read_json(path: pathlib.Path, max_bytes: int = MAX_BYTES) -> dict[str, Any]:
    """Reads a file that holds one JSON object.

    Raises:
        ValueError: it is no regular file, too large, not JSON in UTF-8, nested too deeply, holds a
            number that is not finite, an integer of more than 64 bits, or something other than an
            object.
        FileNotFoundError: there is no such file.
    """
    return parse_json(read_regular(path, max_bytes), path)


def parse_json(content: bytes, where: object) -> dict[str, Any]:
    """Reads one JSON object.

    Args:
        content: UTF-8.
        where: it stands, for the message.

    Raises:
        ValueError: as `read_json`.
    """
    try:
        value = json.loads(
            content.decode(), parse_constant=_refuse, parse_float=_finite, parse_int=_of_64_bits
        )
    except RecursionError as error:
        raise InputError(f"{where}: not JSON that can be read (nested too deeply)") from error
    except ValueError as error:
        raise InputError(f"{where}: not JSON ({error})") from error
    if not isinstance(value, dict):
        raise InputError(f"{where}: expected a JSON object, got {type(value).__name__}")
    return value


def write_json(path: pathlib.Path, value: Any, indent: int | None = 2) -> None:
    """Writes a value as JSON, in UTF-8, so that `read_json` can read it.

    Args:
        path: the file to write or to overwrite.
        value: dictionaries, lists, strings, finite numbers, booleans and None. Strings may hold
            bytes of file names that are not UTF-8, as `os.fsdecode` gives them.
        indent: spaces for each level; None writes a single line.

    Raises:
        ValueError: a number is not finite.
    """
    text = json.dumps(value, indent=indent, ensure_ascii=False, allow_nan=False)
    # A lone surrogate, which stands for such a byte, becomes JSON's escape for it.
    path.write_text(f"{text}\n", encoding="utf-8", errors="backslashreplace")


def _refuse(constant: str) -> NoReturn:
    raise InputError(f"{constant} is no JSON number")


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
