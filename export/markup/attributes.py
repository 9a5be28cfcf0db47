"""The values of attributes in start tags, translated where asked for."""

import html
from collections.abc import Collection, Iterator, Mapping, Sequence

from export.markup.parsing.elements import OPAQUE, may_translate
from export.markup.parsing.tokens import ATTRIBUTE, TAG_NAME, Kind, Token, escape_value
from export.markup.structure import local_name


def translatable_tags(tokens: Sequence[Token], names: Collection[str]) -> Iterator[Token]:
    """Yields the tags with attributes to translate.

    Args:
        tokens: the document.
        names: the attributes to translate; those of elements that are not to be translated stay.
    """
    states = [True]
    for token in tokens:
        if token.kind in (Kind.START, Kind.EMPTY):
            name, attributes = local_name(token.name), token.attributes or {}
            translates = name not in OPAQUE and may_translate(name, attributes, states[-1])
            if translates and any(translatable_values(token, names)):
                yield token
            if token.kind is Kind.START:
                states.append(translates)
        elif token.kind is Kind.END:
            states.pop()


def translatable_values(token: Token, names: Collection[str]) -> Iterator[str]:
    """Yields the values of a tag's attributes that are to be translated, if they have letters."""
    for name, value in (token.attributes or {}).items():
        if name.lower() in names and value and any(map(str.isalpha, value)):
            yield " ".join(value.split())


def with_values(source: str, names: Collection[str], translations: Mapping[str, str]) -> str:
    """Returns a start tag with translated values; everything else is unchanged.

    Args:
        source: the tag.
        names: the attributes to translate.
        translations: translations of values.
    """
    match = TAG_NAME.match(source)
    position = match.end() if match else len(source)
    chunks, copied = [], 0
    while match := ATTRIBUTE.match(source, position):
        position = match.end()
        group = next((number for number in (2, 3, 4) if match[number] is not None), None)
        if group is None or match[1].lower() not in names:
            continue
        value = " ".join(html.unescape(match[group]).split())
        if value in translations:
            written = escape_value(translations[value])
            start, end = match.span(group)
            chunks += [source[copied:start], f'"{written}"' if group == 4 else written]
            copied = end
    return "".join([*chunks, source[copied:]])
