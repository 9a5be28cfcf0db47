"""Multilingual models: a tag before the source selects the target language.

Johnson et al., 2017, "Google's Multilingual Neural Machine Translation System". A tag such as
`<2de>`, or `>>deu<<` in OPUS-MT models, is a piece of the vocabulary that the tokenizer never
splits. A language is named by its code, "de", or by a tag that is not of the first kind, ">>deu<<".

Some models need two tags, see `TransformerConfig.language_tags`: the target's, then the source's.
That is their order in text whatever the model's own is, so that a client need not know the model.
"""

import re
from collections.abc import Iterable, Sequence

from tf_transformer.errors import InputError

# The language's name is what one of the groups matches. Pieces at the begin of a text start with
# SentencePiece's symbol for a space.
TAG_BEGIN = ">>"  # of tags that are a language's name themselves
_CODE = r"[A-Za-z][A-Za-z0-9_-]*"
_MAX_SHOWN = 10
_TAG = re.compile(rf"<2({_CODE})>|\u2581?(>>{_CODE}<<)")
_TAGS = re.compile(rf"(?: *(?:<2{_CODE}>|>>{_CODE}<<))+ *")


def language_tag(language: str) -> str:
    """Returns the tag of a language, `<2de>` for "de" and `>>deu<<` for ">>deu<<".

    Raises:
        InputError: `language` is not the name of a language, such as "de" or "zh-Hant".
    """
    tag = language if language.startswith(TAG_BEGIN) else f"<2{language}>"
    if not _TAG.fullmatch(tag):
        raise InputError(f"expected the name of a language, such as 'de'. Received: {language!r}")
    return tag


def is_tag(piece: str) -> bool:
    """Returns whether a piece is the tag of a language."""
    return _TAG.fullmatch(piece) is not None


def languages_of(pieces: Iterable[str]) -> list[str]:
    """Returns the languages of the pieces that are tags."""
    return [match[1] or match[2] for piece in pieces if (match := _TAG.fullmatch(piece))]


def lacks_tag(text: str, tags: tuple[str, ...], number: int = 1) -> bool:
    """Returns whether a source lacks one of its `number` tags; an empty source needs none.

    The tags before the last one must be followed by a space.
    """
    if not text.strip():
        return False
    *first, rest = text.split(" ", number - 1)
    is_complete = len(first) == number - 1 and all(word in tags for word in first)
    return not (is_complete and rest.lstrip(" ").startswith(tags))


def find_language(language: str, languages: Sequence[str]) -> str:
    """Returns the name that a model has for a language: "de" also means ">>de<<".

    Args:
        language: name of the language.
        languages: the model's languages.

    Raises:
        InputError: the model has no such tag.
    """
    for name in (language, f">>{language}<<"):
        if name in languages:
            return name
    known = f"only for {_some(languages)}" if languages else "it is not multilingual"
    raise InputError(f"the model has no tag for the language {language!r}, {known}")


def find_tags(target: str, source: str | None, languages: Sequence[str], number: int = 1) -> str:
    """Returns the tags to put before a sentence, each with a space.

    Args:
        target: the target language.
        source: the language of the sentence; None if it has no tag.
        languages: the model's languages.
        number: number of tags that the model needs.

    Raises:
        InputError: the model needs another number of tags, or has no such tag.
    """
    if not languages:  # as in BART, whose settings have two tags
        find_language(target, languages)
    if number == 1 and source is not None:
        raise InputError("the model has no tags for source languages; name the target's only")
    if number == 2 and source is None:
        raise InputError("the model needs a tag for the source language, too; name it")
    return written_tags(*(find_language(x, languages) for x in (target, source) if x is not None))


def written_tags(*languages: str) -> str:
    """Returns the tags of languages, each with a space."""
    return "".join(f"{language_tag(language)} " for language in languages)


def tags_of_known(languages: Sequence[str], known: tuple[Sequence[str], int] | None) -> str:
    """Returns the tags to put before a sentence, each with a space, of a model that may be unknown.

    Without the model's languages, as those of a server, tags of both languages are taken for ones
    such as `>>de<<`, and that of the target alone for one such as `<2de>`.

    Args:
        languages: the languages of translation and sentence, or the former, or none.
        known: the model's languages, and the number of tags that it needs.

    Raises:
        InputError: the model has no such tag, or needs another number of tags.
    """
    if known is not None and languages:
        source = languages[1] if len(languages) > 1 else None
        return find_tags(languages[0], source, *known)
    if len(languages) == 2:
        languages = [x if x.startswith(TAG_BEGIN) else f">>{x}<<" for x in languages]
    return written_tags(*languages)


def _some(names: Sequence[str]) -> str:
    """Lists names; of many, the first and their number."""
    if len(names) <= 2 * _MAX_SHOWN:
        return ", ".join(names)
    return f"{', '.join(names[:_MAX_SHOWN])} and {len(names) - _MAX_SHOWN} others"


def check_tag(line: str | bytes, languages: Sequence[str], where: str, number: int = 1) -> None:
    """Checks that a source has the tags that its model needs; an empty source needs none.

    Args:
        line: the sentence.
        languages: the vocabulary's languages; if there are none, every source is valid.
        where: file and line, for the error message.
        number: number of tags that the model needs.

    Raises:
        InputError: the source does not start with these tags.
    """
    tags = tuple(language_tag(language) for language in languages)
    if tags and lacks_tag(_decoded(line), tags, number):
        needed = "the tag of the target language, one of"
        if number == 2:
            needed = "the tags of the target language and its own, two of"
        raise InputError(
            f"{where}: a source for this vocabulary must start with {needed} {_some(tags)}"
        )


def check_tags(
    lines: Iterable[str | bytes], languages: Sequence[str], name: str, number: int = 1
) -> None:
    """Calls `check_tag` for all lines of a file.

    Args:
        lines: the sentences.
        languages: the vocabulary's languages.
        name: name of the file, for the error message.
        number: number of tags that the model needs.

    Raises:
        InputError: a line does not start with these tags.
    """
    if languages:
        for line_number, line in enumerate(lines, 1):
            check_tag(line, languages, f"{name}:{line_number}", number)


def check_untagged(line: str | bytes, where: str) -> None:
    """Checks that a source has no tag, before one is added.

    Args:
        line: the sentence.
        where: file and line, for the error message.

    Raises:
        InputError: the source starts with a tag.
    """
    if _TAG.match(_decoded(line)):
        raise InputError(
            f"{where}: starts with a language tag already. Do not give a target language"
        )


def add_tags(line: bytes, tags: str, where: str) -> bytes:
    """Adds tags to a line that is not empty.

    Args:
        line: the sentence.
        tags: the tags, each with a space, see `find_tags`.
        where: file and line, for the error message.

    Raises:
        InputError: the line has a tag already.
    """
    check_untagged(line, where)
    return tags.encode() + line if line.strip() else line


def without_tags(text: str, languages: Sequence[str], number: int = 1) -> str:
    """Removes the tags at the start of a source, the inverse of `add_tags`.

    Args:
        text: the source, with its tags if it is not blank.
        languages: the vocabulary's languages; if there are none, there are no tags.
        number: number of tags.
    """
    if not languages:
        return text
    tags = tuple(language_tag(language) for language in languages)
    for _ in range(number):
        rest = text.lstrip(" ")
        tag = next((tag for tag in tags if rest.startswith(tag)), "")
        if tag:
            text = rest.removeprefix(tag).lstrip(" ")
    return text


def without_common_tags(lines: Sequence[str]) -> list[str]:
    """Removes the tags at the start of all sources, if all that are not blank have some."""
    tags = [_TAGS.match(line) for line in lines]
    if not all(tag or not line.strip() for line, tag in zip(lines, tags, strict=True)):
        return list(lines)
    return [line[tag.end() :] if tag else line for line, tag in zip(lines, tags, strict=True)]


def _decoded(line):
    return line.decode("utf-8", "replace") if isinstance(line, bytes) else line
