"""What is beside a model for Marian's decoder: `decoder.yml`, or Bergamot's `config.*.yml`."""

import pathlib
from collections.abc import Mapping
from typing import Any, NamedTuple

from tf_transformer.decoding.search_options import (
    DEFAULT_BEAM_SIZE,
    DEFAULT_LENGTH_PENALTY,
    MAX_BEAM_SIZE,
)
from tf_transformer.errors import InputError
from tf_transformer.printable import shown
from tf_transformer.storage.plain_yaml import read_yaml
from tf_transformer.storage.regular_files import read_regular
from tf_transformer.text.reading import decode_text

DECODER_NAME = "decoder.yml"
# Of Bergamot, such as config.intgemm8bitalpha.yml.
_CONFIGS = "config*.yml"
_MAX_CONFIGS = 20
# Settings that no other program's `config.yml` has.
_OF_DECODERS = {"models", "vocabs", "shortlist", "gemm-precision"}
_MAX_BYTES = 2**20
_BEAM_SIZE, _NORMALIZE = "beam-size", "normalize"
# Options of the search, and their values without effect here. With one hypothesis, all but the
# limit of the length and unknown words only change scores.
_OPTIONS: dict[str, tuple[Any, ...]] = {
    _BEAM_SIZE: (DEFAULT_BEAM_SIZE,),
    _NORMALIZE: (DEFAULT_LENGTH_PENALTY,),
    "word-penalty": (0,),
    "max-length-factor": (),
    "allow-unk": (False,),
}
_OF_SEVERAL_HYPOTHESES = (_NORMALIZE, "word-penalty")


class Search(NamedTuple):
    """The search of the original.

    Attributes:
        options: words of the command line of `translate` for the same search, as far as there are.
        notes: what the user must know of the other options, for `ImportedModel`.
    """

    options: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


class Description(NamedTuple):
    """The settings of a decoder.

    Attributes:
        path: their file.
        models: names of the models.
        vocabularies: names of the vocabularies of source and target.
        shortlist: name of the shortlist; None if there is none.
        search: the search.
    """

    path: pathlib.Path
    models: list[str]
    vocabularies: list[str]
    shortlist: str | None
    search: Search


def read_descriptions(folder: pathlib.Path) -> list[Description]:
    """Returns `decoder.yml` of a folder, or else all of Bergamot's files, if there are any.

    Raises:
        InputError: a file is damaged.
    """
    path = folder / DECODER_NAME
    if path.exists():
        return [read_description(path)]
    found = []
    for config in sorted(folder.glob(_CONFIGS))[:_MAX_CONFIGS]:
        values = _read_yaml(config)
        if not _OF_DECODERS.isdisjoint(values):
            found.append(_description(values, config))
    return found


def read_description(path: pathlib.Path) -> Description:
    """Reads the settings of a decoder.

    Of the paths in it, which are often those of another machine, only the names count.

    Raises:
        InputError: the file is damaged, does not name models and two vocabularies, or an option is
            out of range.
    """
    return _description(_read_yaml(path), path)


def _read_yaml(path: pathlib.Path) -> dict[str, Any]:
    values = read_yaml(decode_text(read_regular(path, _MAX_BYTES), path), path)
    if not isinstance(values, dict):
        raise InputError(f"{path}: expected settings with names, got {shown(values)}")
    return values


def _description(values: dict[str, Any], path: pathlib.Path) -> Description:
    vocabularies = _names(values, "vocabs", path)
    if len(vocabularies) != 2:
        raise InputError(
            f"{path}: expected two vocabularies. Received: vocabs={shown(vocabularies)}"
        )
    shortlist = values.get("shortlist")
    if isinstance(shortlist, list):  # with numbers behind the name
        values = values | {"shortlist": shortlist[:1]}
    return Description(
        path,
        _names(values, "models", path),
        vocabularies,
        _names(values, "shortlist", path)[0] if shortlist else None,
        _search(values, path),
    )


def _names(values: dict[str, Any], key: str, path: pathlib.Path) -> list[str]:
    """Returns the names of the files in a list of paths."""
    paths = values.get(key)
    names = [pathlib.PurePosixPath(text).name for text in _texts(paths)]
    if not names or not all(name.isprintable() and name not in ("", "..") for name in names):
        raise InputError(f"{path}: expected a list of files. Received: {key}={shown(paths)}")
    return names


def _texts(value: Any) -> list[str]:
    is_list = isinstance(value, list) and all(isinstance(text, str) for text in value)
    return value if is_list else []


def _search(values: Mapping[str, Any], path: pathlib.Path) -> Search:
    given = {name: values[name] for name in _OPTIONS if values.get(name) is not None}
    for name, value in given.items():
        if type(value) not in (bool, int, float):
            raise InputError(f"{path}: expected a number. Received: {name}={shown(value)}")
    options: list[str] = []
    beam_size = given.get(_BEAM_SIZE, DEFAULT_BEAM_SIZE)
    if type(beam_size) is not int or not 1 <= beam_size <= MAX_BEAM_SIZE:
        raise InputError(
            f"{path}: expected 1 to {MAX_BEAM_SIZE}. Received: {_BEAM_SIZE}={shown(beam_size)}"
        )
    if beam_size != DEFAULT_BEAM_SIZE:
        options += ["--beam-size", str(beam_size)]
    if beam_size == 1:
        for name in _OF_SEVERAL_HYPOTHESES:
            given.pop(name, None)
    if given.get(_NORMALIZE) == 0:
        options += ["--length-penalty", "0"]
    others = [
        f"{name}={shown(value)}"
        for name, value in given.items()
        if name != _BEAM_SIZE and (name, value) != (_NORMALIZE, 0) and value not in _OPTIONS[name]
    ]
    if not others:
        return Search(tuple(options))
    note = (
        f"{path.name} has {', '.join(others)}, to which no option of a search is equal here; see "
        "the options of `translate`."
    )
    return Search(tuple(options), (note,))
