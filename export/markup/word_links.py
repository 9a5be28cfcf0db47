"""Links between the words of a text and those of its translation."""

import collections
from collections.abc import Sequence

from export.markup.aligned_translation import AlignedTranslation
from export.markup.piece_spans import piece_spans
from export.markup.words import Span, is_sign, overlapping, split_at_signs, split_words

# For each word of the translation, its words in the source, with weights that sum to 1.
WordLinks = list[dict[int, float]]

# Links of words that a text may have, source words times target words, so that time is bounded.
_MAX_PAIRS = 2**22
_MIN_COPY_LENGTH = 4
# Signs that languages write differently.
_SIGNS = str.maketrans("。、，；：！？（）؟،؛।–—", ".,,;:!?()?,;.--") | dict.fromkeys(
    map(ord, "«»“”„‟‘’‚‹›'「」『』"), '"'
)


def word_links(
    source: str,
    source_words: Sequence[Span],
    translation: AlignedTranslation,
    target_words: Sequence[Span],
) -> WordLinks:
    """Returns what each word of a translation comes from.

    A word has the links of its pieces, with two exceptions. A placeholder, or a word of four
    characters or more, that both texts have once, such as a name, comes from itself. Attention to
    signs means little: the k-th of a kind comes from the k-th of this kind, if both texts have as
    many, and otherwise from nothing. Without links of pieces, a word comes from that at the same
    share of the source.

    Args:
        source: the text.
        source_words: its words.
        translation: its translation.
        target_words: the words of the translation.
    """
    links: WordLinks = [{} for _ in target_words]
    if not source_words or not target_words:
        return links
    if len(source_words) * len(target_words) <= _MAX_PAIRS:
        _add_links_of_pieces(links, source, source_words, translation, target_words)
    if not any(links):
        ratio = len(source_words) / len(target_words)
        return [{int((index + 0.5) * ratio): 1.0} for index in range(len(target_words))]
    _link_equal_words(links, source, source_words, translation.text, target_words)
    return links


def words_with_links(
    source: str,
    source_words: Sequence[Span],
    joined: Sequence[Span],
    translation: AlignedTranslation,
) -> tuple[list[Span], WordLinks]:
    """Returns the words of a translation, and what each comes from.

    Words of the source that are parts of one, such as those of "horse/dog" that are in links of
    their own, need words of the translation: what comes from them is cut at its signs, too. If
    one word of it has as many parts and signs, each comes from the one at its place.

    Args:
        source: the text.
        source_words: its words.
        joined: ranges of words that are parts of one.
        translation: its translation.
    """
    words = split_words(translation.text)
    links = word_links(source, source_words, translation, words)
    if not joined:
        return words, links
    numbers = {word: number for number, span in enumerate(joined) for word in range(*span)}
    # For each word of the translation, the joined words that most of it comes from, or None.
    origins = [_most_of(found, numbers) for found in links]
    cut = [
        [word] if number is None else split_at_signs(translation.text, word)
        for word, number in zip(words, origins, strict=True)
    ]
    words = [part for parts in cut for part in parts]
    links = word_links(source, source_words, translation, words)
    # Those with as many parts.
    equal = [
        number if number is not None and len(parts) == len(range(*joined[number])) else None
        for number, parts in zip(origins, cut, strict=True)
    ]
    counts, index = collections.Counter(equal), 0
    for number, parts in zip(equal, cut, strict=True):
        if number is not None and counts[number] == 1:
            links[index : index + len(parts)] = [{word: 1.0} for word in range(*joined[number])]
        index += len(parts)
    return words, links


def _most_of(found, numbers) -> int | None:
    totals: dict[int | None, float] = collections.defaultdict(float)
    for word, share in found.items():
        totals[numbers.get(word)] += share
    return max(totals, key=totals.__getitem__, default=None)


def _add_links_of_pieces(links, source, source_words, translation, target_words) -> None:
    sides = (
        (source, translation.source_pieces, source_words),
        (translation.text, translation.target_pieces, target_words),
    )
    # For each side and each piece, its words. A piece with a word and a sign, such as `red,`, is
    # the word.
    from_words, to_words = (
        [
            _without_signs(text, words, overlapping(words, span))
            for span in piece_spans(text, pieces)
        ]
        for text, pieces, words in sides
    )
    for i, j in sorted(set(translation.links)):
        if not (0 <= i < len(from_words) and 0 <= j < len(to_words)):
            continue
        for target in to_words[j]:
            for word in from_words[i]:
                weight = 1 / len(from_words[i])
                links[target][word] = links[target].get(word, 0.0) + weight
    for found in links:
        total = sum(found.values())
        for word in found:
            found[word] /= total


def _without_signs(text, words, indices) -> Sequence[int]:
    found = [index for index in indices if not is_sign(text[words[index].start : words[index].end])]
    return found or indices


def _link_equal_words(links, source, source_words, target, target_words) -> None:
    sources, targets = _indices(source, source_words), _indices(target, target_words)
    for word, found in targets.items():
        origins = sources.get(word, [])
        is_known = len(origins) == len(found)
        if is_sign(word):
            for number, index in enumerate(found):
                links[index] = {origins[number]: 1.0} if is_known else {}
        elif is_known and len(found) == 1 and _is_copy(word):
            links[found[0]] = {origins[0]: 1.0}


def _is_copy(word):
    return len(word) >= _MIN_COPY_LENGTH or word[0] in "{%"


def _indices(text, words) -> dict[str, list[int]]:
    """Returns the indices of equal words, and of signs of the same kind."""
    found = collections.defaultdict(list)
    for index, word in enumerate(words):
        characters = text[word.start : word.end]
        found[characters.translate(_SIGNS) if is_sign(characters) else characters].append(index)
    return found
