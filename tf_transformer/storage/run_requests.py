"""What the files of a run depend on, so that two runs are not mixed up."""

import pathlib
from collections.abc import Mapping
from typing import Any

from tf_transformer.errors import InputError
from tf_transformer.printable import shown


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
        if former.get(name) != request.get(name):
            raise InputError(
                f"{begun} was begun with {name} {shown(former.get(name))}, not "
                f"{shown(request.get(name))}; {advice}"
            )
