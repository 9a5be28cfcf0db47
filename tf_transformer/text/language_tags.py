"""One model, several target languages: a tag before the source says which one is wanted.

Johnson et al., 2017, "Google's Multilingual Neural Machine Translation System". A tag is a piece of
the vocabulary, such as `<2de>`, that is never split.
"""

import re
from collections.abc import Iterable, Sequence

from tf_transformer.errors import InputError

_TAG = re.compile(r"<2([A-Za-z][A-Za-z0-9_-]*)>")


def language_tag(language: str) -> str:
    """The tag of a language, `<2de>` for "de".

    Raises:
        ValueError: not the name of a language, such as "de" or "zh-Hant".
    """
    tag = f"<2{language}>"
    if not _TAG.fullmatch(tag):
        raise InputError(f"expected the name of a language, such as 'de'. Received: {language!r}")
    return tag


def languages_of(pieces: Iterable[str]) -> list[str]:
    """The languages of those pieces that are tags."""
    return [match[1] for piece in pieces if (match := _TAG.fullmatch(piece))]


def lacks_tag(text: str, tags: tuple[str, ...]) -> bool:
    """Whether a source begins with none of the tags; an empty one needs none."""
    return bool(text.strip()) and not text.startswith(tags)


def check_language(language: str, languages: Sequence[str]) -> None:
    """Refuses a language that a model has no tag for.

    Raises:
        ValueError: says which ones there are.
    """
    if language not in languages:
        has = f"only for {', '.join(languages)}" if languages else "for none"
        raise InputError(f"the model has no tag for the language {language!r}, {has}")


def check_tag(line: str | bytes, languages: Sequence[str], where: str) -> None:
    """Refuses a source without the tag that its model needs; an empty one needs none.

    Args:
        line: the sentence.
        languages: those of the vocabulary; without any, every source is right.
        where: file and line, for the message.

    Raises:
        ValueError: it begins with none of the tags.
    """
    tags = tuple(language_tag(language) for language in languages)
    if tags and lacks_tag(_decoded(line), tags):
        raise InputError(
            f"{where}: a source for this vocabulary begins with the language that is "
            f"wanted, one of {', '.join(tags)}"
        )


def check_tags(lines: Iterable[str | bytes], languages: Sequence[str], name: str) -> None:
    """Calls `check_tag` for all lines of a file called `name`.

    Raises:
        ValueError: names the first line that begins with none of the tags.
    """
    if languages:
        for number, line in enumerate(lines, 1):
            check_tag(line, languages, f"{name}:{number}")


def check_untagged(line: str | bytes, where: str) -> None:
    """Refuses a source with a tag, where a language is put before every line.

    Raises:
        ValueError: it begins with a tag.
    """
    if _TAG.match(_decoded(line)):
        raise InputError(f"{where}: begins with a language already; leave the target language out")


def tagged(line: bytes, language: str, where: str) -> bytes:
    """Puts the language's tag before a line that is not empty.

    Raises:
        ValueError: it has a tag already.
    """
    check_untagged(line, where)
    return language_tag(language).encode() + b" " + line if line.strip() else line


def _decoded(line):
    return line.decode("utf-8", "replace") if isinstance(line, bytes) else line
