"""Where the elements of a text belong in its translation."""

import bisect
import itertools
from collections.abc import Mapping, Sequence

import numpy as np

from export.markup.ordered_ranges import ranges_in_order
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
# Words to consider before a mark for the one that it follows. For an element without words in the
# translation, a word at this distance counts as much as one of another element.
_MAX_DISTANCE = 16
# Elements times words of the translation that are compared at once, so that time is bounded.
_MAX_PAIRS = 2**20
# Of ranges with equal sums, the one with the most words of the element, and the fewest others.
_OWN_WORD = 1e-6
_FREE_WORD = -1e-7
_NOTHING = Span(0, 0)


class Placement:
    """Finds the words of a translation that each element contains.

    The words of an element are the range in which most words come from its words in the source, and
    fewest from others: of all ranges, the one with the largest sum over its words of the share that
    comes from inside, less the share that comes from outside. So a word with a wrong link neither
    extends a range nor divides one. Several words that come from the same one count a part each,
    signs a quarter, and words that come from nothing do not count. An element with all words of its
    parent has all those of the translation, too.

    Children are in the words of their parent, and do not overlap. If the best ranges of several do,
    or a link has too few words, the children get ranges with the largest sum of all. Each link has
    a word then, and an element with several links has one for each, as long as there are words:
    links come before other elements, and then those with the largest sums. An element without
    words, and another whose words come to nothing, stands before the word that comes from the next
    word of the source, and at the start or the end of its parent if it is there in the source, or
    between two parts that are translated on their own if it is there. A mark stands behind what
    comes from the word that it follows. An atom replaces the copy of its text that is nearest to
    its words, which no other child gets, and is otherwise an element without words.

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
        is_word = [not is_sign(word) for word in target_words]
        self._words_before = list(itertools.accumulate(is_word, initial=0))
        self._linked = [0.0]  # sum of the words with a link before each word
        for index, found in enumerate(links):
            self._linked.append(self._linked[-1] + self._weights[index] * bool(found))
            for source_word in found:
                self._targets[source_word].append(index)
        # What each word adds to the sum of a range if none of it comes from its element.
        linked = -np.diff(self._linked)
        self._others = np.where(linked < 0, linked, _FREE_WORD)

    def place(self, root: Inline) -> dict[int, Span]:
        """Returns the words of each element in the translation, by `id(element)`.

        Args:
            root: the parent of all elements, with all words.
        """
        places = {id(root): Span(0, len(self._links))}
        if _num_words(root) > _MAX_WORDS:
            self._place_by_share(root, places)
            return places
        needs = _needs(root)
        stack = [root]
        while stack:
            parent = stack.pop()
            self._place_children(parent, places, needs)
            stack.extend(parent.children)
        return places

    def _place_children(self, parent, places, needs):
        space = places[id(parent)]
        taken: list[Span] = []

        def take(child: Inline, span: Span) -> None:
            places[id(child)] = span
            bisect.insort(taken, span)

        ranked: list[tuple[float, Inline]] = []
        wishes: dict[int, Span] = {}
        # Atoms first: their copies would come twice in a range of another element.
        for child in sorted(parent.children, key=lambda child: not child.is_atom):
            if child.words.start == child.words.end:
                continue
            if child.words == parent.words and not child.is_atom:
                take(child, space)
                continue
            best = self._best_range(child, space, taken)
            if best is not None and child.is_atom:
                take(child, best[1])
            elif best is not None and not child.is_atom:
                ranked.append((best[0], child))
                wishes[id(child)] = best[1]
            elif child.keeps_word:
                ranked.append((0.0, child))
                wishes[id(child)] = self._second_best(child, parent, space)
        ranked.sort(key=lambda pair: (not pair[1].keeps_word, -pair[0]))
        elements = [child for _, child in ranked]
        if not self._is_granted(elements, wishes, needs):
            wishes = self._choose_together(elements, wishes, needs, space, taken)
        for child in elements:
            if wishes[id(child)] != _NOTHING:
                take(child, wishes[id(child)])
        for child in elements:
            best = None if id(child) in places else self._best_range(child, space, taken)
            if best is not None:
                take(child, best[1])
        earlier: set[Span] = set()  # the places of the children before
        for child in parent.children:
            if id(child) not in places:
                places[id(child)] = self._point(child, parent, space, taken, earlier)
            elif child.words.start < child.words.end:
                earlier.add(places[id(child)])

    def _second_best(self, element, parent, space) -> Span:
        """Returns the word that comes most from an element, or the place where one is missing."""
        shares = self._shares(element, space)
        if shares:
            target = max(shares, key=lambda target: shares[target][0])
            return Span(target, target + 1)
        point = self._point_of_word(element.words.start, parent.words, space)
        return Span(point, point)

    def _is_granted(self, elements, wishes, needs) -> bool:
        """Returns whether all elements can have the ranges that are best for each on its own."""
        for child in elements:
            start, end = wishes[id(child)]
            number = self._words_before[end] - self._words_before[start]
            if number < needs[id(child)]:
                return False
        spans = sorted(wishes.values())
        return all(one.end <= other.start for one, other in itertools.pairwise(spans))

    def _choose_together(self, elements, wishes, needs, space, taken) -> dict[int, Span]:
        """Returns disjoint ranges of elements, which have the largest sum of all.

        They are in the order of the middles of the ranges that are best for each on its own.

        Args:
            elements: the elements; the first ones get words if there are too few.
            wishes: the ranges that are best for each on its own, by `id(element)`.
            needs: the number of words that each needs.
            space: where the ranges may be.
            taken: ranges that they must not overlap.
        """
        ordered = sorted(elements, key=lambda element: (sum(wishes[id(element)]), element.words))
        size = space.end - space.start
        if len(ordered) > 1 and len(ordered) * size > _MAX_PAIRS:
            return self._choose_in_halves(ordered, elements, wishes, needs, space, taken)
        is_free = np.ones(size, bool)
        for start, end in taken:
            is_free[max(start - space.start, 0) : max(end - space.start, 0)] = False
        gains = [self._gains(element, space, wishes[id(element)]) for element in ordered]
        for gain in gains:
            gain[~is_free] = -4 * size - 4
        is_word = is_free & (np.diff(self._words_before[space.start : space.end + 1]) > 0)
        # As many words as there are links in each, one each, and one for as many as there are.
        all_words = [needs[id(element)] for element in ordered]
        one_word = [min(need, 1) for need in all_words]
        firsts = set(map(id, elements[: is_free.sum()]))
        few = [need * (id(x) in firsts) for x, need in zip(ordered, one_word, strict=True)]
        for needed, count in itertools.product((all_words, one_word, few), (is_word, is_free)):
            ranges = ranges_in_order(gains, [count] * len(gains), needed)
            if ranges is not None and all(is_free[start:end].all() for start, end in ranges):
                break
        return {
            id(element): Span(space.start + start, space.start + end) if start < end else _NOTHING
            for element, (start, end) in zip(ordered, ranges or [], strict=True)
        }

    def _choose_in_halves(self, ordered, elements, wishes, needs, space, taken) -> dict[int, Span]:
        """Returns what `_choose_together` does, of the first and the last elements separately."""
        half = len(ordered) // 2
        sides = (ordered[:half], ordered[half:])
        before, behind = (sum(needs[id(element)] for element in side) for side in sides)
        cut = min(max(wishes[id(ordered[half])].start, space.start + before), space.end - behind)
        cut = max(cut, space.start)
        first = set(map(id, sides[0]))
        return self._choose_together(
            [x for x in elements if id(x) in first], wishes, needs, Span(space.start, cut), taken
        ) | self._choose_together(
            [x for x in elements if id(x) not in first], wishes, needs, Span(cut, space.end), taken
        )

    def _gains(self, element, space, wish) -> np.ndarray:
        """Returns what each word of a space adds to the sum of an element's range.

        If no range has more of its words than of others, those that are near count more.
        """
        gains = self._others[space.start : space.end].copy()
        shares = self._shares(element, space)
        own = {t: self._gain(t, *found) for t, found in shares.items()}
        if max(own.values(), default=0.0) <= 0:
            distances = np.abs(np.arange(space.start, space.end) - wish.start)
            gains = -np.minimum((distances + 1) / _MAX_DISTANCE, 1.5)
            own = {t: self._weights[t] * share for t, (share, _) in shares.items()}
        for target, gain in own.items():
            gains[target - space.start] = gain
        return gains

    def _gain(self, target, share, weight) -> float:
        return self._weights[target] * weight * (2 * share - 1) + _OWN_WORD

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
            total += self._gain(target, share, weight)
            previous = target
            if total > 0 and (best is None or total > best[0]):
                best = (total, Span(start, target + 1))
        return best

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


def _needs(root) -> dict[int, int]:
    """Returns how many words of the translation each element needs, by `id(element)`.

    A link needs one, and an element with links as many as these and the copied elements in it.
    """
    order = [root]
    for element in order:
        order.extend(element.children)
    needs: dict[int, int] = {}
    for element in reversed(order):
        needs[id(element)] = 0
        if element.is_atom and element.text:
            needs[id(element)] = len(split_words(element.text))
        elif element.keeps_word and element.words.start < element.words.end:
            needs[id(element)] = max(1, sum(needs[id(child)] for child in element.children))
    return needs


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
