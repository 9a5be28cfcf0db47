"""Where the elements of a text belong in its translation."""

import bisect
from collections.abc import Mapping, Sequence

from export.markup.segment_text import Inline
from export.markup.word_links import WordLinks
from export.markup.words import Span, is_sign, split_words

# Words that the elements of a text may have, those of nested elements counted again each time, so
# that time is bounded.
_MAX_WORDS = 2**22
# What a sign counts, compared with a word.
_SIGN_WEIGHT = 0.25
# Copies of an atom's text in a translation to consider, on each side.
_MAX_COPIES = 8
# Words to consider, on each side, for what has lost its own.
_MAX_DISTANCE = 16


class Placement:
    """Finds the words of a translation that each element contains.

    The words of an element are the range in which most words come from its words in the source, and
    fewest from others: of all ranges, the one with the largest sum over its words of the share that
    comes from inside, less the share that comes from outside. So a word with a wrong link neither
    extends a range nor divides one. Several words that come from the same one count a part each,
    signs a quarter, and words that come from nothing do not count. An element with all words of its
    parent has all those of the translation, too.

    Children are in the words of their parent, and do not overlap: links choose first, then those
    with the largest sums. A link whose words come to nothing that is left has a word of another one
    that has more, or the nearest one. An element without words, and another whose words come to
    nothing, stands before the word that comes from the next word of the source, and at the start or
    the end of its parent if it is there in the source, or between two parts that are translated on
    their own if it is there. A mark stands behind what comes from the word that it follows. An atom
    replaces the copy of its text that is nearest to its words, and is otherwise an element without
    words.

    Args:
        links: what the words of the translation come from.
        target_words: the words of the translation.
        num_source_words: number of words of the source.
        starts: for the first word of each part of the source that is translated on its own, the
            first word of its translation.
    """

    def __init__(
        self,
        links: WordLinks,
        target_words: Sequence[str],
        num_source_words: int,
        starts: Mapping[int, int],
    ):
        self._links, self._target_words = links, target_words
        self._boundaries = {**starts, num_source_words: len(target_words)}
        self._indices: dict[str, list[int]] = {}
        for index, word in enumerate(target_words):
            self._indices.setdefault(word, []).append(index)
        self._targets: list[list[int]] = [[] for _ in range(num_source_words)]
        self._weights = [_SIGN_WEIGHT if is_sign(word) else 1.0 for word in target_words]
        self._linked = [0.0]  # sum of the words with a link before each word
        for index, found in enumerate(links):
            self._linked.append(self._linked[-1] + self._weights[index] * bool(found))
            for source_word in found:
                self._targets[source_word].append(index)

    def place(self, root: Inline) -> dict[int, Span]:
        """Returns the words of each element in the translation, by `id(element)`.

        Args:
            root: the parent of all elements, with all words.
        """
        places = {id(root): Span(0, len(self._links))}
        if _num_words(root) > _MAX_WORDS:
            self._place_by_share(root, places)
            return places
        stack = [root]
        while stack:
            parent = stack.pop()
            self._place_children(parent, places)
            stack.extend(parent.children)
        return places

    def _place_children(self, parent, places):
        space = places[id(parent)]
        ranked = []
        for child in parent.children:
            has_words = child.words.start < child.words.end
            if has_words and child.words == parent.words and not child.is_atom:
                places[id(child)] = space
            elif has_words:
                best = self._best_range(child, space, [])
                if best is not None or child.keeps_word:
                    ranked.append((best[0] if best else 0.0, child))
        taken = sorted({places[id(x)] for x in parent.children if id(x) in places} - {Span(0, 0)})
        owners: dict[Span, Inline] = {}
        for _, child in sorted(ranked, key=lambda pair: (not pair[1].keeps_word, -pair[0])):
            best = self._best_range(child, space, taken)
            found = best[1] if best else None
            if found is None and child.keeps_word:
                found = self._word_of_other(child, space, taken, owners, places)
                found = found or self._nearest_word(child, parent, space, taken)
            if found is not None:
                places[id(child)] = found
                bisect.insort(taken, found)
                owners[found] = child
        earlier: set[Span] = set()  # the places of the children before
        for child in parent.children:
            if id(child) not in places:
                places[id(child)] = self._point(child, parent, space, taken, earlier)
            elif child.words.start < child.words.end:
                earlier.add(places[id(child)])

    def _best_range(
        self, element: Inline, space: Span, taken: Sequence[Span]
    ) -> tuple[float, Span] | None:
        """Returns the best range of an element in a space, and its sum; None if it has no words.

        Args:
            element: the element.
            space: where the range may be.
            taken: ranges that it must not overlap, in order.
        """
        shares = self._shares(element, space)
        if element.is_atom:
            copy = self._find_copy(element, space, taken, min(shares, default=space.start))
            return (float(copy.end - copy.start), copy) if copy else None
        best = None
        total, start, previous = 0.0, 0, -1
        for target in sorted(shares):
            outside = self._linked[target] - self._linked[previous + 1]
            if _taken_at(taken, target) is not None:
                total = 0.0
                previous = target
                continue
            total -= outside
            if previous < 0 or total <= 0 or _taken_between(taken, previous, target):
                total, start = 0.0, target
            share, weight = shares[target]
            total += self._weights[target] * weight * (2 * share - 1) + 1e-6
            previous = target
            if total > 0 and (best is None or total > best[0]):
                best = (total, Span(start, target + 1))
        return best

    def _word_of_other(self, element, space, taken, owners, places) -> Span | None:
        """Returns a word that comes from an element, which no range has, or one that has others.

        That range ends before it, or starts behind it, and with a word that comes from its element.
        """
        shares = self._shares(element, space)
        for target in sorted(shares, key=lambda target: -shares[target][0]):
            if _taken_at(taken, target) is None:
                return Span(target, target + 1)
        for span in dict.fromkeys(_taken_at(taken, target) for target in shares):
            owner = owners.get(span)
            if span is None or owner is None or owner.is_atom:
                continue
            is_behind = element.words.start >= owner.words.end
            edge = span.end - 1 if is_behind else span.start
            others = range(span.start, edge)[::-1] if is_behind else range(edge + 1, span.end)
            own = self._first_word_of(owner, others[:_MAX_DISTANCE])
            if own is not None and edge in shares:
                rest = Span(span.start, own + 1) if is_behind else Span(own, span.end)
                taken[bisect.bisect_left(taken, span)] = places[id(owner)] = rest
                owners[rest] = owners.pop(span)
                return Span(edge, edge + 1)
        return None

    def _first_word_of(self, element, targets) -> int | None:
        start, end = element.words
        own = (x for x in targets if any(start <= word < end for word in self._links[x]))
        return next(own, None)

    def _nearest_word(self, element, parent, space, taken) -> Span | None:
        """Returns one word that no range has, near those that come from an element."""
        point = self._point_of_word(element.words.start, parent.words, space)
        first, end = max(point - _MAX_DISTANCE, space.start), min(point + _MAX_DISTANCE, space.end)
        # Words before signs, and the nearest ones first.
        near = sorted(
            range(first, end), key=lambda target: (-self._weights[target], abs(target - point))
        )
        free = (target for target in near if _taken_at(taken, target) is None)
        return next((Span(target, target + 1) for target in free), None)

    def _shares(self, element, space) -> dict[int, tuple[float, float]]:
        """Returns the share of each target word that comes from an element, and its weight."""
        shares: dict[int, tuple[float, float]] = {}
        for word in range(*element.words):
            weight = 1 / max(len(self._targets[word]), 1)
            for target in self._targets[word]:
                if space.start <= target < space.end:
                    share, most = shares.get(target, (0.0, 0.0))
                    shares[target] = (share + self._links[target][word], max(most, weight))
        return shares

    def _find_copy(self, atom, space, taken, expected) -> Span | None:
        """Returns the words that are the text of an atom, the nearest ones to an expected word."""
        texts = [atom.text[word.start : word.end] for word in split_words(atom.text)]
        starts = self._indices.get(texts[0], []) if texts else []
        # Nearest first, and few, so that time is bounded.
        position = bisect.bisect_left(starts, expected)
        nearest = starts[max(position - _MAX_COPIES, 0) : position + _MAX_COPIES]
        for start in sorted(nearest, key=lambda index: abs(index - expected)):
            end = start + len(texts)
            is_free = _taken_at(taken, start) is None and not _taken_between(taken, start, end - 1)
            is_free = is_free and space.start <= start and end <= space.end
            if is_free and list(self._target_words[start:end]) == texts:
                return Span(start, end)
        return None

    def _point(self, element, parent, space, taken, earlier) -> Span:
        """Returns the place of an element without words, which is between two words."""
        follows = element.follows_word and element.words.start > parent.words.start
        boundary = self._boundaries.get(element.words.start)
        if boundary is not None and not (follows and element.word_before):
            point = min(max(boundary, space.start), space.end)
        elif follows:
            point = self._point_after_sign_or_word(element, parent, space)
        else:
            point = self._point_of_word(element.words.start, parent.words, space)
        inside = _taken_at(taken, point)
        if inside is not None and inside.start < point:
            point = inside.end if follows or inside in earlier else inside.start
        return Span(point, point)

    def _point_after_sign_or_word(self, element, parent, space) -> int:
        """Returns the place of a mark, which stands behind a sign that follows its word."""
        word = element.words.start - 1
        if not element.sign_before or word <= parent.words.start:
            return self._point_after_word(word, parent.words, space)
        point = self._point_after_word(word - 1, parent.words, space)
        return point + (point < space.end and is_sign(self._target_words[point]))

    def _point_after_word(self, word, words, space) -> int:
        """Returns the place behind what comes from a word, or from one before it."""
        for known in range(word, max(words.start, word - _MAX_DISTANCE) - 1, -1):
            best = self._best_range(Inline("", words=Span(known, known + 1)), space, [])
            if best is not None:
                return best[1].end
            if known == word and (target := self._last_part_of(word, space)) is not None:
                return target + 1
            if known == words.end - 1:
                return space.end
        return space.start

    def _last_part_of(self, word, space) -> int | None:
        """Returns the word that comes from this one and others before it, such as a compound."""
        for target in sorted(self._targets[word], key=lambda x: -self._links[x][word]):
            share = sum(share for source, share in self._links[target].items() if source <= word)
            if space.start <= target < space.end and share >= 0.5:
                return target
        return None

    def _point_of_word(self, word, words, space) -> int:
        if word <= words.start:
            return space.start
        if word >= words.end:
            return space.end
        for following in (word, word - 1):
            targets = [
                target
                for target in self._targets[following]
                if space.start <= target < space.end and self._links[target][following] >= 0.5
            ]
            if targets:
                return targets[0] if following == word else targets[-1] + 1
        share = (word - words.start) / (words.end - words.start)
        return space.start + round(share * (space.end - space.start))

    def _place_by_share(self, root, places):
        """Places the elements of a text with too many words at the same share as in the source."""
        ratio = len(self._links) / max(root.words.end, 1)
        stack = list(root.children)
        while stack:
            element = stack.pop()
            start, end = (int(index * ratio) for index in element.words)
            places[id(element)] = Span(start, start if element.is_atom else end)
            stack.extend(element.children)


def _num_words(root) -> int:
    total, stack = 0, list(root.children)
    while stack:
        element = stack.pop()
        parent = element.parent
        if parent is None or element.words != parent.words:
            total += element.words.end - element.words.start + len(parent.children).bit_length()
        stack.extend(element.children)
    return total


def _taken_at(taken, index) -> Span | None:
    """Returns the range that contains a word."""
    number = bisect.bisect_right(taken, index, key=lambda span: span.start) - 1
    return taken[number] if number >= 0 and index < taken[number].end else None


def _taken_between(taken, first, last) -> bool:
    """Returns whether a range begins between two words."""
    number = bisect.bisect_right(taken, first, key=lambda span: span.start)
    return number < len(taken) and taken[number].start <= last
