"""What a tuning depends on, in its folder, so that two tunings are not mixed up."""

import pathlib
from typing import Any

from tf_transformer.errors import InputError
from tf_transformer.storage.files import remove_leftovers
from tf_transformer.storage.json_files import read_json, write_json
from tf_transformer.storage.own_files import check_own_file, replacing_own
from tf_transformer.storage.run_requests import check_same_request
from training.settings import flatten

REQUEST_NAME = "tuning.json"
_FORMAT_VERSION = 1


def start_or_resume(folder: pathlib.Path, request: dict[str, Any]) -> None:
    """Writes the request of a new tuning, or checks that the recorded one is the same.

    Args:
        folder: an existing folder.
        request: what the results depend on, as JSON values.

    Raises:
        InputError: the folder has been used for another tuning or for something else, or the record
            is damaged.
    """
    path = folder / REQUEST_NAME
    check_own_file(path)
    if not path.exists():
        remove_leftovers(folder)
        if any(folder.iterdir()):
            raise InputError(f"{folder}: expected a new or empty folder, or that of a tuning")
        with replacing_own(path) as temporary:
            write_json(temporary, {"format_version": _FORMAT_VERSION, "request": request}, indent=1)
        return
    content = read_json(path)
    try:
        former, version = dict(content["request"]), content["format_version"]
    except (LookupError, TypeError, ValueError) as error:
        raise InputError(f"{path}: not a record of a tuning; give another folder") from error
    if version != _FORMAT_VERSION:
        raise InputError(f"{path}: expected format_version {_FORMAT_VERSION}; give another folder")
    advice = "give the same to resume, or another folder"
    check_same_request(folder, flatten(former), flatten(request), advice)
