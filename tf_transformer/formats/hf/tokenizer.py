"""The ids of Transformers' tokenizers for M2M100 and NLLB: `vocab.json` or `tokenizer.json`."""

import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

from tf_transformer.errors import InputError
from tf_transformer.formats.hf.folder import MAX_VOCABULARY_BYTES, read_vocabulary
from tf_transformer.printable import shown
from tf_transformer.storage.json_files import parse_json
from tf_transformer.storage.regular_files import read_regular
from tf_transformer.text.language_tags import is_tag

VOCABULARY_NAME, TOKENIZER_NAME = "vocab.json", "tokenizer.json"
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
_DESCRIPTIONS = ("tokenizer_config.json", "special_tokens_map.json")
_CODES = ("extra_special_tokens", "additional_special_tokens")
# fairseq's special pieces, which the ids begin with.
SPECIAL = ("<s>", "<pad>", "</s>", "<unk>")
MASK = "<mask>"


def read_names(folder: pathlib.Path, pieces: Sequence[str]) -> list[str]:
    """Returns the name of each id; the codes of languages become tags.

    In M2M100 they are in `vocab.json`, and the codes follow. In NLLB they are in `tokenizer.json`,
    or those of the special pieces, the SentencePiece model, the codes and the mask.

    Args:
        folder: the folder.
        pieces: the pieces of the SentencePiece model.

    Raises:
        InputError: a file is missing or damaged, or ids are missing.
    """
    if (folder / VOCABULARY_NAME).exists():
        names = read_vocabulary(folder / VOCABULARY_NAME)
        return names + [_tag(code, folder) for code in _languages(folder)]
    codes = _read_codes(folder)
    tags = {code: _tag(code, folder) for code in codes}
    if len(tags) < len(codes):
        raise InputError(f"{folder}: expected the code of each language once")
    if (folder / TOKENIZER_NAME).exists():
        return [tags.get(name, name) for name in _read_tokenizer(folder / TOKENIZER_NAME)]
    ordinary = [piece for piece in pieces if piece not in SPECIAL]
    return [*SPECIAL, *ordinary, *tags.values(), MASK]


def _languages(folder: pathlib.Path) -> list[str]:
    """Returns the codes of M2M100's languages, which its tokenizer knows."""
    path = folder / _DESCRIPTIONS[0]
    name = _read_description(path).get("language_codes", "m2m100") if path.exists() else "m2m100"
    if not isinstance(name, str) or name not in _LANGUAGES:
        raise InputError(
            f"{path}: language_codes={shown(name)} is not supported, only "
            f"{' or '.join(map(repr, _LANGUAGES))}"
        )
    return _LANGUAGES[name].split()


def _read_description(path: pathlib.Path) -> dict[str, Any]:
    # Transformers writes 10**30 for an unlimited length.
    return parse_json(read_regular(path, MAX_VOCABULARY_BYTES), path, large_integers=True)


def _read_tokenizer(path: pathlib.Path) -> list[str]:
    """Returns the name of each id of a `tokenizer.json`."""
    content = _read_description(path)
    model = content.get("model")
    vocabulary = model.get("vocab") if isinstance(model, Mapping) else None
    if not isinstance(vocabulary, Mapping):
        raise InputError(f"{path}: expected the ids of pieces as model.vocab")
    added = content.get("added_tokens")
    added = [token for token in added if isinstance(token, Mapping)] if added else []
    pairs = [(token_id, name) for name, token_id in vocabulary.items()]
    pairs += [(token.get("id"), token.get("content")) for token in added]
    names = {i: name for i, name in pairs if isinstance(i, int) and isinstance(name, str)}
    for token_id in range(len(names)):
        if token_id not in names:
            raise InputError(
                f"{path}: expected the ids 0 to {len(names) - 1}, each once; {token_id} is missing"
            )
    return [names[token_id] for token_id in range(len(names))]


def _read_codes(folder: pathlib.Path) -> list[Any]:
    """Returns the codes of the languages, in the order of their ids."""
    for name in _DESCRIPTIONS:
        if (folder / name).exists():
            description = _read_description(folder / name)
            for key in _CODES:
                tokens = description.get(key)
                codes = [_content(token) for token in tokens] if isinstance(tokens, list) else []
                if codes:
                    return [code for code in codes if code != MASK]
    raise InputError(
        f"{folder}: no codes of languages; expected {' or '.join(_CODES)} in "
        f"{' or '.join(_DESCRIPTIONS)}"
    )


def _content(token: Any) -> Any:
    """Returns the text of a token, which is a string, or an object with other settings."""
    return token.get("content") if isinstance(token, dict) else token


def _tag(code: Any, folder: pathlib.Path) -> str:
    """Returns the tag of a code: `>>fr<<` for `__fr__`, `>>fra_Latn<<` for `fra_Latn`."""
    is_text = isinstance(code, str)
    tag = f">>{code.removeprefix('__').removesuffix('__')}<<" if is_text else ""
    if not is_tag(tag):
        raise InputError(f"{folder}: expected the code of a language. Received: {shown(code)}")
    return tag
