"""Rules of a SentencePiece model's normalization: texts, and what replaces them.

A model stores its rules as `precompiled_charsmap`: the length of a double array, the double array,
which is a trie of the texts in UTF-8 in the format of Darts-clone, and the replacements, each with
a zero byte after it. At each place of a text, the longest rule counts. Format and search:
`Normalizer::DecodePrecompiledCharsMap` and `NormalizePrefix` in SentencePiece's normalizer.cc, and
`DoubleArrayUnit` in its third_party/darts_clone/darts.h.
"""

from collections.abc import Mapping

import numpy as np

from tf_transformer.errors import InputError

_BLOCK = 256
# Parts of a unit: its label, or a value; whether a value follows; the distance to its children.
_LABEL, _IS_VALUE, _HAS_VALUE, _IS_FAR = 0xFF, 1 << 31, 1 << 8, 1 << 9
_MAX_UNITS = 2**21  # of distances that are not multiples of a block
_ROOT = 1 << 10


def add_rules(charsmap: bytes, rules: Mapping[str, str] | Mapping[bytes, bytes]) -> bytes:
    """Returns the rules of a model and new ones, which replace old ones of the same text.

    Args:
        charsmap: `precompiled_charsmap` of a model, empty if it has no rules.
        rules: texts, and what replaces them. Bytes may be parts of characters.

    Raises:
        InputError: `charsmap` is damaged, or there is no space for the rules.
    """
    if not rules:
        return charsmap
    units, replacements = _parse(charsmap)
    trie = _Trie(units)
    added = bytearray(replacements + b"\0")
    for text, replacement in rules.items():
        trie.set(_encoded(text), len(added))
        added += _encoded(replacement) + b"\0"
    array = trie.to_bytes()
    return np.array([len(array)], "<u4").tobytes() + array + bytes(added)


def _encoded(text: str | bytes) -> bytes:
    return text.encode() if isinstance(text, str) else text


def _parse(charsmap: bytes) -> tuple[np.ndarray, bytes]:
    """Returns the units of the double array, and the replacements."""
    if not charsmap:
        return np.array([_ROOT] + [0] * (_BLOCK - 1), "<u4"), b""
    size = int.from_bytes(charsmap[:4], "little")
    if not 0 < size < len(charsmap) - 4 or size % (4 * _BLOCK):
        raise InputError("the table of the normalization is damaged")
    return np.frombuffer(charsmap, "<u4", size // 4, 4), charsmap[4 + size :]


class _Trie:
    """A double array to which keys can be added.

    The children of a unit are at `base ^ label`, its value at `base`. Units with equal subtrees
    share their children. Therefore old units are not changed, except the root: the units on the way
    to a new key get copies of their children, behind the old units.

    Args:
        units: `(size,)`, a multiple of a block.
    """

    def __init__(self, units: np.ndarray):
        self._units = [int(unit) for unit in units]
        self._is_used = [True] * len(units)
        self._bases: set[int] = set()  # of units whose children are not shared
        self._next = len(units)
        self._childless = -1  # the newest unit, as long as it has neither children nor a value

    def set(self, key: bytes, value: int) -> None:
        """Sets the value of a key."""
        node = 0
        for label in key:
            child, is_new = self._place(node, label)
            if is_new:
                self._units[child], self._childless = label, child
            node = child
        place, _ = self._place(node, 0)
        self._units[node] |= _HAS_VALUE
        self._units[place] = _IS_VALUE | value

    def to_bytes(self) -> bytes:
        """Returns the units."""
        return np.array(self._units, "<u4").tobytes()

    def _place(self, node: int, label: int) -> tuple[int, bool]:
        """Returns the place of a child, which may be changed, and whether there was none.

        Args:
            node: index of a unit that may be changed.
            label: label of the child, 0 for the value.
        """
        labels, base = self._labels(node), self._base(node)
        is_new = label not in labels
        is_own = base in self._bases and node != self._childless
        if is_own and not (is_new and self._is_used[base ^ label]):
            self._is_used[base ^ label] = True
            return base ^ label, is_new
        new_base = self._free_base([*labels, label])
        for copied in labels:
            old, new = base ^ copied, new_base ^ copied
            unit = self._units[old]
            self._units[new] = _with_distance(unit, new ^ self._base(old)) if copied else unit
            self._is_used[new] = True
        self._is_used[new_base ^ label] = True
        self._units[node] = _with_distance(self._units[node], node ^ new_base)
        self._bases.add(new_base)
        self._childless = -1
        return new_base ^ label, is_new

    def _base(self, node: int) -> int:
        unit = self._units[node]
        base = node ^ ((unit >> 10) << ((unit & _IS_FAR) >> 6))
        if base >= len(self._units):
            raise InputError("the table of the normalization is damaged")
        return base

    def _labels(self, node: int) -> list[int]:
        """Returns the labels of a unit's children, with 0 if it has a value."""
        if node == self._childless:
            return []
        base = self._base(node)
        labels = [0] if self._units[node] & _HAS_VALUE else []
        return labels + [
            label
            for label in range(1, _BLOCK)
            if self._units[base ^ label] & (_IS_VALUE | _LABEL) == label
        ]

    def _free_base(self, labels: list[int]) -> int:
        """Returns a base for children, in a new block if necessary."""
        while True:
            for place in range(self._next, len(self._units)):
                base = place ^ labels[0]
                is_used = any(self._is_used[base ^ label] for label in labels)
                if base not in self._bases and not is_used:
                    while self._next < len(self._units) and self._is_used[self._next]:
                        self._next += 1
                    return base
            if len(self._units) + _BLOCK > _MAX_UNITS:
                raise InputError("the table of the normalization has no space for the added words")
            self._next = max(self._next, len(self._units) - _BLOCK)
            self._units += [0] * _BLOCK
            self._is_used += [False] * _BLOCK


def _with_distance(unit: int, distance: int) -> int:
    return (unit & (_IS_VALUE | _HAS_VALUE | _LABEL)) | (distance << 10)
