"""The ids of Transformers' tokenizers for M2M100 and NLLB: `vocab.json` or `tokenizer.json`."""

import pathlib
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from tf_transformer.errors import InputError
from tf_transformer.formats.added_words import AddedWord
from tf_transformer.formats.hf.added_tokens import (
    DESCRIPTION_NAME,
    TOKENIZER_NAME,
    TokenIds,
    find_words,
    read_added_tokens,
    read_description,
)
from tf_transformer.formats.hf.folder import read_vocabulary
from tf_transformer.formats.hf.tokenizer_json import piece_ids
from tf_transformer.printable import shown
from tf_transformer.text.language_tags import is_tag

MODEL_NAME, VOCABULARY_NAME = "sentencepiece.bpe.model", "vocab.json"
# The codes of the languages after the ids of `vocab.json`, by the tokenizer's `language_codes`.
_LANGUAGES = {
    "m2m100": (
        "af am ar ast az ba be bg bn br bs ca ceb cs cy da de el en es et fa ff fi fr fy ga gd gl "
        "gu ha he hi hr ht hu hy id ig ilo is it ja jv ka kk km kn ko lb lg ln lo lt lv mg mk ml "
        "mn mr ms my ne nl no ns oc or pa pl ps pt ro ru sd si sk sl so sq sr ss su sv sw ta th tl "
        "tn tr uk ur uz vi wo xh yi yo zh zu"
    ),
    "wmt21": "en ha is ja cs ru zh de",
}
# The descriptions of a tokenizer, in which older and newer versions of Transformers name the codes.
DESCRIPTION_NAMES = (DESCRIPTION_NAME, "special_tokens_map.json")
_CODES = ("extra_special_tokens", "additional_special_tokens")
# The codes of NLLB and M2M100, and others, whose first part is that of ISO 639.
_USUAL_CODE = r"[a-z]{3}_[A-Z][a-z]{3}|__[a-z]{2,3}([_-][A-Za-z0-9]+)*__"
_ANY_CODE = rf"{_USUAL_CODE}|[a-z]{{2,3}}([_-][A-Za-z0-9]+)*"
# fairseq's special pieces, which the ids begin with.
SPECIAL = ("<s>", "<pad>", "</s>", "<unk>")
MASK = "<mask>"


class Names(NamedTuple):
    """The names of a tokenizer's ids.

    Attributes:
        names: the name of each id; codes of languages are tags, and words are their pieces.
        words: the words that were added to the vocabulary.
        are_guessed: whether ids of languages follow from their order only.
        notes: see `ImportedModel`.
    """

    names: list[str]
    words: tuple[AddedWord, ...]
    are_guessed: bool
    notes: tuple[str, ...]


def read_names(
    folder: pathlib.Path, pieces: Sequence[str] | None, codes: Sequence[str] = ()
) -> Names:
    """Returns the names of ids.

    In M2M100 they are in `vocab.json`, and the codes follow. In NLLB they are those of the special
    pieces and the SentencePiece model, and of `tokenizer.json`. Tokens after these have the ids
    that the files state. Codes of NLLB without such an id have the free ids, in their order, and
    the mask follows.

    Args:
        folder: the folder.
        pieces: the pieces of `sentencepiece.bpe.model`; None if there is only `tokenizer.json`.
        codes: the codes of languages that the tokenizer knows without a file, which follow the
            pieces.

    Raises:
        InputError: a file is missing or damaged, ids are missing, or two files contradict each
            other.
    """
    ids, added, listed = TokenIds(folder), read_added_tokens(folder), _read_listed(folder)
    for name, token_id, file in _vocabulary_ids(folder, pieces, codes):
        ids.state(name, token_id, file)
    for token in added:
        ids.state(token.name, token.token_id, token.file)
    are_guessed = _state_listed(folder, ids, listed)
    codes = [name for name in codes if name in ids.by_name]
    special = {name for names in (codes, *listed.values()) for name in names}
    special |= {token.name for token in added if token.settings.get("special")}
    candidates = dict.fromkeys([*_language_tokens(folder), *special, *(x.name for x in added)])
    tags = {name: _tag(name, folder) for name in candidates if _is_code(name, name in special)}
    if len(set(tags.values())) < len(tags):
        raise InputError(f"{folder}: expected the code of each language once")
    if not tags:
        raise InputError(
            f"{folder}: no codes of languages; expected {' or '.join(_CODES)} in "
            f"{' or '.join(DESCRIPTION_NAMES)}"
        )
    words = find_words(folder, added, {*SPECIAL, MASK, *tags})
    spellings = tags | {name: word.piece for name, word in words.items()}
    return Names(
        [spellings.get(name, name) for name in ids.names()],
        tuple(words.values()),
        are_guessed,
        tuple(
            f"{name} is taken for a word, not for the code of a language"
            for name in words
            if name in special and name[0].islower() and is_tag(f">>{name}<<")
        ),
    )


def _vocabulary_ids(
    folder: pathlib.Path, pieces: Sequence[str] | None, codes: Sequence[str]
) -> Iterator[tuple[Any, Any, str]]:
    """Yields name, id and file of what is in a vocabulary."""
    if (folder / VOCABULARY_NAME).exists():
        names = [*read_vocabulary(folder / VOCABULARY_NAME), *_language_tokens(folder)]
        yield from ((name, token_id, VOCABULARY_NAME) for token_id, name in enumerate(names))
        return
    if (folder / TOKENIZER_NAME).exists():
        vocabulary = piece_ids(folder / TOKENIZER_NAME)
        yield from ((name, token_id, TOKENIZER_NAME) for name, token_id in vocabulary.items())
    if pieces is not None:
        yield from ((name, token_id, MODEL_NAME) for token_id, name in enumerate(SPECIAL))
        for index, name in enumerate(pieces):
            if name not in SPECIAL:
                yield name, index + 1, MODEL_NAME
        for index, name in enumerate(codes):
            yield name, len(pieces) + 1 + index, MODEL_NAME


def _state_listed(folder: pathlib.Path, ids: TokenIds, listed: Mapping[str, Sequence[str]]) -> bool:
    """Gives ids to the listed codes of NLLB that have none, and to the mask.

    Returns:
        Whether there were such codes.

    Raises:
        InputError: these ids do not follow from the files.
    """
    lacking = {
        file: [name for name in names if name not in ids.by_name] for file, names in listed.items()
    }
    lists = {file: names for file, names in lacking.items() if names}
    is_fixed = any((folder / name).exists() for name in (VOCABULARY_NAME, TOKENIZER_NAME))
    for file, names in lists.items():
        for name in names:
            if is_fixed or not _is_code(name, is_special=True):
                raise InputError(f"{folder / file}: no file states the id of {shown(name)}")
        if names != next(iter(lists.values())):
            raise InputError(
                f"{folder}: {' and '.join(lists)} name the languages in different orders, and no "
                "file states their ids"
            )
    if not is_fixed:
        ids.fill([*next(iter(lists.values()), []), MASK], next(iter(lists), MODEL_NAME))
    return bool(lists)


def _language_tokens(folder: pathlib.Path) -> list[str]:
    """Returns the codes of M2M100's languages, which its tokenizer knows; none for NLLB."""
    if not (folder / VOCABULARY_NAME).exists():
        return []
    path = folder / DESCRIPTION_NAME
    name = read_description(path).get("language_codes", "m2m100") if path.exists() else "m2m100"
    if not isinstance(name, str) or name not in _LANGUAGES:
        raise InputError(
            f"{path}: language_codes={shown(name)} is not supported, only "
            f"{' or '.join(map(repr, _LANGUAGES))}"
        )
    return [f"__{code}__" for code in _LANGUAGES[name].split()]


def _read_listed(folder: pathlib.Path) -> dict[str, list[str]]:
    """Returns the special tokens besides the usual ones that each file lists, in its order."""
    listed: dict[str, list[str]] = {}
    for file in DESCRIPTION_NAMES:
        description = read_description(folder / file) if (folder / file).exists() else {}
        if description.get("legacy_behaviour") not in (None, False):
            raise InputError(
                f"{folder / file}: legacy_behaviour puts the code of the language behind the text, "
                "which is not supported; expected false"
            )
        lists = [x for key in _CODES if isinstance(x := description.get(key), list) and x]
        names = [_content(token) for tokens in lists[:1] for token in tokens]
        for name in names:
            if not isinstance(name, str) or not name:
                raise InputError(
                    f"{folder}: expected the code of a language. Received: {shown(name)}"
                )
        if len(set(names)) < len(names):
            raise InputError(f"{folder}: expected the code of each language once")
        listed[file] = [name for name in names if name not in (*SPECIAL, MASK)]
    return listed


def _content(token: Any) -> Any:
    """Returns the text of a token, which is a string, or an object with other settings."""
    return token.get("content") if isinstance(token, dict) else token


def _is_code(name: str, is_special: bool) -> bool:
    """Returns whether a token is the code of a language.

    Args:
        name: its name.
        is_special: whether it is a special token, as codes usually are. Some users add languages
            as ordinary tokens.
    """
    return re.fullmatch(_ANY_CODE if is_special else _USUAL_CODE, name) is not None


def usual_tag(name: str) -> str | None:
    """Returns the tag of a code of NLLB's or M2M100's; None if the token is none."""
    return _tag_of(name) if _is_code(name, is_special=False) else None


def _tag_of(code: str) -> str:
    """Returns the tag of a code: `>>fr<<` for `__fr__`, `>>fra_Latn<<` for `fra_Latn`."""
    return f">>{code.removeprefix('__').removesuffix('__')}<<"


def _tag(code: str, folder: pathlib.Path) -> str:
    tag = _tag_of(code)
    if not is_tag(tag):
        raise InputError(f"{folder}: expected the code of a language. Received: {shown(code)}")
    return tag
