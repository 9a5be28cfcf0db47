"""One model, several target languages: a tag before the source says which one is wanted.

Johnson et al., 2017, "Google's Multilingual Neural Machine Translation System". A tag is a piece of
the vocabulary, such as `<2de>`, that is never split.
"""

import re
from collections.abc import Iterable, Sequence

_TAG = re.compile(r"<2([A-Za-z][A-Za-z0-9_-]*)>")


def language_tag(language: str) -> str:
    """The tag of a language, `<2de>` for "de".

    Raises:
        ValueError: not the name of a language, such as "de" or "zh-Hant".
    """
    tag = f"<2{language}>"
    if not _TAG.fullmatch(tag):
        raise ValueError(f"expected the name of a language, such as 'de'. Received: {language!r}")
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
        raise ValueError(f"the model has no tag for the language {language!r}, {has}")


def check_tags(lines: Iterable[str | bytes], languages: Sequence[str], name: str) -> None:
    """Refuses a source without the tags that its model needs; empty lines need none.

    Args:
        lines: the sentences.
        languages: those of the vocabulary; without any, every source is right.
        name: of the source, for the message.

    Raises:
        ValueError: names the first line that begins with none of the tags.
    """
    if not languages:
        return
    tags = tuple(language_tag(language) for language in languages)
    for number, line in enumerate(lines, 1):
        text = line.decode("utf-8", "replace") if isinstance(line, bytes) else line
        if lacks_tag(text, tags):
            raise ValueError(
                f"{name}:{number}: a source for this vocabulary begins with the language that is "
                f"wanted, one of {', '.join(tags)}"
            )


def check_untagged(lines: Iterable[str | bytes], name: str) -> None:
    """Refuses a source with tags, where a language is put before every line.

    Raises:
        ValueError: names the first line that begins with a tag.
    """
    for number, line in enumerate(lines, 1):
        text = line.decode("utf-8", "replace") if isinstance(line, bytes) else line
        if _TAG.match(text):
            raise ValueError(
                f"{name}:{number}: begins with a language already; leave the target language out"
            )


def tagged(lines: Iterable[bytes], language: str) -> list[bytes]:
    """Puts the language's tag before all lines that are not empty.

    Raises:
        ValueError: a line has a tag already.
    """
    lines = list(lines)
    check_untagged(lines, "input")
    tag = language_tag(language).encode() + b" "
    return [tag + line if line.strip() else line for line in lines]
