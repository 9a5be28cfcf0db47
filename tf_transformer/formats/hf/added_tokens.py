"""Tokens that were added to a tokenizer of Transformers, and the ids that its files state.

An id is stated up to four times: by the vocabulary, and for added tokens by `added_tokens.json`
(of tokenizers in Python), by `added_tokens_decoder` in `tokenizer_config.json`, and by
`added_tokens` in `tokenizer.json` (of tokenizers in Rust).
"""

import pathlib
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from tf_transformer.errors import InputError
from tf_transformer.formats.added_words import AddedWord
from tf_transformer.formats.hf.folder import MAX_VOCABULARY_BYTES
from tf_transformer.formats.hf.tokenizer_json import strips_parts
from tf_transformer.printable import shown
from tf_transformer.storage.json_files import parse_json
from tf_transformer.storage.regular_files import read_regular

ADDED_NAME, DESCRIPTION_NAME, TOKENIZER_NAME = (
    "added_tokens.json",
    "tokenizer_config.json",
    "tokenizer.json",
)


class AddedToken(NamedTuple):
    """A token that is found in the text before it is segmented.

    Attributes:
        name: its text.
        token_id: its id.
        file: the file that states it.
        settings: its other settings in this file.
    """

    name: Any
    token_id: Any
    file: str
    settings: Mapping[str, Any]


class TokenIds:
    """The name of each id, and the files that state it.

    Args:
        folder: folder of the model, for error messages.

    Attributes:
        by_name: the id of each name.
    """

    def __init__(self, folder: pathlib.Path):
        self.by_name: dict[str, int] = {}
        self._folder = folder
        self._stated: dict[int, tuple[str, str]] = {}

    def state(self, name: Any, token_id: Any, file: str) -> None:
        """Adds a name.

        Args:
            name: the name.
            token_id: its id.
            file: what states it.

        Raises:
            InputError: they are no name and id, or something else states otherwise.
        """
        is_name = isinstance(name, str) and name and not re.search("[\ud800-\udfff]", name)
        if not (is_name and type(token_id) is int and token_id >= 0):
            raise InputError(
                f"{self._folder / file}: expected names and ids of tokens, got {shown(token_id)} "
                f"for {shown(name)}"
            )
        other, origin = self._stated.setdefault(token_id, (name, file))
        if other != name:
            raise InputError(
                f"{self._folder}: the id {token_id} is that of {shown(other)} in {origin} and that "
                f"of {shown(name)} in {file}"
            )
        if self.by_name.setdefault(name, token_id) != token_id:
            first_id = self.by_name[name]
            raise InputError(
                f"{self._folder}: {shown(name)} has the id {first_id} in "
                f"{self._stated[first_id][1]} and {token_id} in {file}"
            )

    def fill(self, names: Iterable[str], file: str) -> None:
        """Gives the lowest free ids to names without one, in their order.

        Args:
            names: the names.
            file: what names them.
        """
        token_id = 0
        for name in names:
            while token_id in self._stated:
                token_id += 1
            if name not in self.by_name:
                self.state(name, token_id, file)

    def names(self) -> list[str]:
        """Returns the name of each id.

        Raises:
            InputError: an id has no name.
        """
        size = len(self._stated)
        for token_id in range(size):
            if token_id not in self._stated:
                last = max(self._stated)
                raise InputError(
                    f"{self._folder}: expected the ids 0 to {size - 1}, each once; {token_id} is "
                    f"missing, and {shown(self._stated[last][0])} has {last} in "
                    f"{self._stated[last][1]}"
                )
        return [self._stated[token_id][0] for token_id in range(size)]


def added_names(folder: pathlib.Path) -> set[str]:
    """Returns the names of the added tokens.

    Raises:
        InputError: a file is damaged.
    """
    return {token.name for token in _added_tokens(folder) if isinstance(token.name, str)}


def read_added_tokens(folder: pathlib.Path) -> list[AddedToken]:
    """Returns the added tokens of all files, one that several files state several times.

    Raises:
        InputError: a file is damaged.
    """
    return list(_added_tokens(folder))


def _added_tokens(folder: pathlib.Path) -> Iterator[AddedToken]:
    if (path := folder / ADDED_NAME).exists():
        for name, token_id in read_description(path).items():
            yield AddedToken(name, token_id, path.name, {})
    if (path := folder / DESCRIPTION_NAME).exists():
        tokens = read_description(path).get("added_tokens_decoder")
        for digits, settings in (tokens if isinstance(tokens, Mapping) else {}).items():
            is_id = digits.isascii() and digits.isdecimal() and len(digits) < 10
            token_id = int(digits) if is_id else digits
            yield _with_settings(settings, token_id, path.name)
    if (path := folder / TOKENIZER_NAME).exists():
        tokens = read_description(path).get("added_tokens")
        for settings in tokens if isinstance(tokens, list) else []:
            token_id = settings.get("id") if isinstance(settings, Mapping) else None
            yield _with_settings(settings, token_id, path.name)


def _with_settings(settings: Any, token_id: Any, file: str) -> AddedToken:
    if not isinstance(settings, Mapping):
        settings = {"content": settings}
    return AddedToken(settings.get("content"), token_id, file, settings)


def read_description(path: pathlib.Path) -> dict[str, Any]:
    """Reads a JSON object that describes a tokenizer.

    Raises:
        InputError: it is damaged, or has a key twice.
    """
    # Transformers writes 10**30 for an unlimited length.
    content = read_regular(path, MAX_VOCABULARY_BYTES)
    return parse_json(content, path, unique_keys=True, large_integers=True)


def find_words(
    folder: pathlib.Path, tokens: Iterable[AddedToken], others: Iterable[str]
) -> dict[str, AddedWord]:
    """Returns the words among added tokens by their names.

    Args:
        folder: folder of the model.
        tokens: its added tokens.
        others: names that are no words, such as those of special tokens and of languages.

    Raises:
        InputError: the original finds a word only in some places, which is not supported.
    """
    known = set(others)
    found = [token for token in tokens if token.name not in known]
    if not found:
        return {}
    path = folder / TOKENIZER_NAME
    is_in_rust = path.exists()
    # SentencePiece keeps no spaces at the ends of the texts between words, unlike tokenizers in
    # Rust, which strip them only from texts beside words that are found before the normalization.
    strips_normalized = not is_in_rust
    strips_raw = not is_in_rust or strips_parts(path)
    refused = ("single_word", "rstrip") if is_in_rust else ("single_word",)
    words: dict[str, AddedWord] = {}
    for name, _, file, settings in found:
        for setting in refused:
            if settings.get(setting):
                raise InputError(
                    f"{folder / file}: the added token {shown(name)} has {setting}="
                    f"{shown(settings[setting])}, which is not supported"
                )
        is_normalized = settings.get("normalized", not settings.get("special"))
        strips = strips_normalized if is_normalized else strips_raw
        words[name] = AddedWord(name, splits_space=not (strips or settings.get("lstrip")))
    return words
