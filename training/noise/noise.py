"""Noise for pairs of sentences, as TensorFlow ops; what a pair gets is a function of its key."""

import itertools
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import tensorflow as tf

from training.config import NoiseConfig
from training.noise.copies import insert_copies, make_copies
from training.noise.draws import pair_keys, uniform
from training.noise.end_punctuation import without_end
from training.noise.letter_case import title_case, upper_case
from training.noise.typos import add_typos

_NOT_BLANK = r"(?s).*[^\s\pZ].*"
_CHUNK = 1024


class NoisyPairs(NamedTuple):
    """Pairs of sentences with noise.

    Attributes:
        source: `(batch,)` strings.
        target: `(batch,)` strings.
        copied: the token that was inserted into both sides of each pair; "" if none was.
    """

    source: tf.Tensor
    target: tf.Tensor
    copied: tf.Tensor


def add_noise(
    source: tf.Tensor, target: tf.Tensor, keys: tf.Tensor, rates: NoiseConfig
) -> NoisyPairs:
    """Adds noise to pairs of sentences; pairs with a blank side are unchanged.

    Args:
        source: `(batch,)` UTF-8 strings, which may begin with language tags.
        target: `(batch,)` UTF-8 strings.
        keys: key of each pair, see `pair_keys`.
        rates: the rates; what has rate 0 adds no operations.
    """
    may_change = tf.strings.regex_full_match(source, _NOT_BLANK)
    may_change &= tf.strings.regex_full_match(target, _NOT_BLANK)
    pairs = NoisyPairs(source, target, tf.zeros_like(source))
    if rates.typos:
        pairs = _change(pairs, keys, may_change, _with_typos(rates.typos))
    if rates.no_end:
        is_chosen = may_change & (uniform(keys, "no end") < rates.no_end)
        pairs = _change(pairs, keys, is_chosen, _without_end)
    if rates.upper or rates.title:
        draws = uniform(keys, "case")  # one for both, so that no pair gets both
        if rates.upper:
            is_chosen = may_change & (draws < rates.upper)
            pairs = _change(pairs, keys, is_chosen, _in_upper_case)
        if rates.title:
            is_within = (draws >= rates.upper) & (draws < rates.upper + rates.title)
            pairs = _change(pairs, keys, may_change & is_within, _in_title_case)
    if rates.copies:
        is_chosen = may_change & (uniform(keys, "copy") < rates.copies)
        pairs = _change(pairs, keys, is_chosen, _with_copies)
    return pairs


def perturb_lines(
    sources: Iterable[str], targets: Iterable[str], rates: NoiseConfig, seed: int = 1
) -> Iterator[tuple[str, str, str]]:
    """Adds noise to the lines of two texts, as a function of the seed and the line's number.

    Args:
        sources: source sentences.
        targets: their translations, as many.
        rates: the rates.
        seed: the random seed.

    Yields:
        The source, the target and the copied token of each line, see `NoisyPairs`.
    """
    pairs = zip(sources, targets, strict=True)
    num_done = 0
    while chunk := list(itertools.islice(pairs, _CHUNK)):
        keys = pair_keys(seed, tf.range(num_done, num_done + len(chunk), dtype=tf.int64))
        source, target = (tf.constant(side) for side in zip(*chunk, strict=True))
        noisy = add_noise(source, target, keys, rates)
        for row in zip(*(side.numpy() for side in noisy), strict=True):
            yield tuple(text.decode() for text in row)
        num_done += len(chunk)


def _change(pairs, keys, is_chosen, function):
    """Returns pairs, of which some are replaced by `function(pairs, keys)` of them."""
    rows = tf.where(is_chosen)
    chosen = NoisyPairs(*(tf.gather_nd(side, rows) for side in pairs))
    changed = function(chosen, tf.gather_nd(keys, rows))
    return NoisyPairs(
        *(tf.tensor_scatter_nd_update(*x) for x in zip(pairs, [rows] * 3, changed, strict=True))
    )


def _with_typos(rate):
    return lambda pairs, keys: pairs._replace(source=add_typos(pairs.source, keys, rate))


def _without_end(pairs, keys):
    source, target = without_end(pairs.source, pairs.target)
    return pairs._replace(source=source, target=target)


def _in_upper_case(pairs, keys):
    return pairs._replace(source=upper_case(pairs.source), target=upper_case(pairs.target))


def _in_title_case(pairs, keys):
    return pairs._replace(source=title_case(pairs.source), target=title_case(pairs.target))


def _with_copies(pairs, keys):
    tokens = make_copies(keys)
    return NoisyPairs(*insert_copies(pairs.source, pairs.target, tokens, keys), tokens)
