"""Translators without a model, whose alignments are known."""

from collections.abc import Callable, Sequence

from export.markup import AlignedTranslation


def reordered(order: Callable[[int], Sequence[int]]) -> Callable:
    """A translator into upper case that moves words: `order(n)` are their places in the source."""

    def translate(texts: Sequence[str]) -> list[AlignedTranslation]:
        found = []
        for text in texts:
            words = text.split()
            places = list(order(len(words)))
            target = [words[i].upper() for i in places]
            pieces = ([f"▁{word}" for word in side] for side in (words, target))
            links = [(i, j) for j, i in enumerate(places)]
            found.append(AlignedTranslation(" ".join(target), *pieces, links))
        return found

    return translate


upper = reordered(range)
backwards = reordered(lambda number: range(number)[::-1])


def identity(texts: Sequence[str]) -> list[AlignedTranslation]:
    return [found._replace(text=text) for found, text in zip(upper(texts), texts, strict=True)]


def unaligned(texts: Sequence[str]) -> list[AlignedTranslation]:
    return [AlignedTranslation(text.upper()) for text in texts]


def fixed(source: str, target: str, links: str) -> Callable:
    """A translator that knows one sentence; `links` are pairs of words, such as `0-0 1-2`."""
    pairs = [tuple(map(int, link.split("-"))) for link in links.split()]
    sides = ([f"▁{word}" for word in text.split()] for text in (source, target))
    known = {source: AlignedTranslation(target, *sides, pairs)}
    return lambda texts: [known[text] for text in texts]
