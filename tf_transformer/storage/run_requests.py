"""What the files of a run depend on, so that two runs are not mixed up."""

import pathlib
import re
from collections.abc import Mapping
from typing import Any

from tf_transformer.errors import InputError
from tf_transformer.printable import shown

_DIGEST = re.compile("[0-9a-f]{32,}")


def check_same_request(
    begun: pathlib.Path, former: Mapping[str, Any], request: Mapping[str, Any], advice: str
) -> None:
    """Checks that an interrupted or finished run had the same request as the one to be resumed.

    Args:
        begun: the file or folder of the former run.
        former: its request.
        request: the request now.
        advice: end of the error message, what to do.

    Raises:
        InputError: they differ; the message names the first difference.
    """
    for name in sorted(former.keys() | request.keys()):
        values = former.get(name), request.get(name)
        if values[0] != values[1]:
            raise InputError(f"{begun} was begun {_difference(name, *values)}; {advice}")


def _difference(name: str, former: Any, value: Any) -> str:
    """Describes two values of a request; digests tell nobody anything, so they are left out."""
    if any(_DIGEST.search(str(x)) for x in (former, value)):
        return f"with different {name.removesuffix('_digest_blake2b').replace('_', ' ')}"
    if all(x is not None and not isinstance(x, bool) for x in (former, value)):
        return f"with {name} {shown(former)}, not {shown(value)}"
    return f"{_with(name, former)}, not {_with(name, value)}"


def _with(name: str, value: Any) -> str:
    if value is None or value is False:
        return f"without {name}"
    return f"with {name}" if value is True else f"with {name} {shown(value)}"
