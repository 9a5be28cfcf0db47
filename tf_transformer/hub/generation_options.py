"""Options of `generate`: checks, defaults, and their values for every sentence."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import keras_hub
import numpy as np

from tf_transformer.decoding.search_interface import check_search_arguments
from tf_transformer.decoding.search_options import (
    DEFAULT_BEAM_SIZE,
    SAMPLING_OPTIONS,
    SEARCH_OPTIONS,
    RowOption,
)
from tf_transformer.errors import InputError
from tf_transformer.known_names import check_names
from tf_transformer.printable import shown

_SEARCH = {option.name: option for option in SEARCH_OPTIONS}
_SAMPLING = {option.name: option for option in SAMPLING_OPTIONS}
# In the order of `SamplingOptions`.
SAMPLING_COLUMNS = (*SAMPLING_OPTIONS, _SEARCH["max_length"])


def options_of_sampler(sampler: Any) -> dict[str, Any]:
    """Returns the options that correspond to a sampler of KerasHub.

    Args:
        sampler: "auto" for the defaults of this project; the name of a sampler, or an instance.

    Raises:
        InputError: nothing here corresponds to the sampler.
    """
    if isinstance(sampler, str) and sampler == "auto":
        return {}
    samplers = keras_hub.samplers
    try:
        found = samplers.get(sampler)
    except (KeyError, ValueError, TypeError):
        found = None
    if isinstance(found, samplers.GreedySampler):
        return {"beam_size": 1}
    if isinstance(found, samplers.BeamSampler):
        return {"beam_size": found.num_beams}
    limits = {}
    if isinstance(found, samplers.TopKSampler):
        limits = {"top_k": found.k}
    elif isinstance(found, samplers.TopPSampler):
        limits = {"top_p": found.p, "top_k": found.k or 0}
    elif not isinstance(found, samplers.RandomSampler):
        raise InputError(
            '`sampler` must be "auto", or the greedy, beam, random, top-k or top-p sampler of '
            f"KerasHub. Received: sampler={shown(sampler)}"
        )
    return limits | {"temperature": found.temperature, "seed": found.seed}


class RowOptions(NamedTuple):
    """Options of a call of `generate`.

    Attributes:
        is_sampling: whether to sample instead of searching.
        columns: the values of all sentences, `(rows,)` each: those of `TranslationOptions`, or of
            `SamplingOptions`.
        beam_size: the largest beam size of a sentence.
    """

    is_sampling: bool
    columns: tuple[np.ndarray, ...]
    beam_size: int

    @classmethod
    def make(cls, given: Mapping[str, Any], defaults: Mapping[str, Any], rows: int) -> "RowOptions":
        """Checks options.

        Args:
            given: options by name, a number or `(rows,)` numbers each; None means not given.
            defaults: the options of the task, used unless options of the other kind are given.
            rows: number of sentences.

        Raises:
            InputError: an option is unknown or invalid, or belongs to another kind of search than
                others.
        """
        given = {name: value for name, value in given.items() if value is not None}
        known = _SEARCH | _SAMPLING
        check_names(given, known)
        kinds = {name in _SAMPLING for name in given if name != "max_length"}
        if len(kinds) > 1:
            raise InputError(
                f"Options of beam search, {sorted(_SEARCH)}, and of sampling, {sorted(_SAMPLING)}, "
                f"cannot be combined. Received: {sorted(given)}"
            )
        if not kinds or any(name in _SAMPLING for name in defaults) in kinds:
            given = {**defaults, **given}
        if any(name in _SAMPLING for name in given):
            return cls(True, _sampling_columns(given, rows), 1)
        given = {"beam_size": DEFAULT_BEAM_SIZE} | given
        columns = tuple(_column(option, given, rows) for option in SEARCH_OPTIONS)
        by_name = dict(zip(_SEARCH, columns, strict=True))
        for beam_size in np.unique(by_name["beam_size"]).tolist():
            check_search_arguments(beam_size, 1, 0.0)
        return cls(False, columns, int(by_name["beam_size"].max(initial=1)))


def _sampling_columns(given, rows):
    given = {"temperature": 1.0} | given
    if "seed" not in given:
        # NumPy's global generator, because `keras.utils.set_random_seed` seeds it.
        given["seed"] = np.random.randint(2**31)
    if np.ndim(given["seed"]) == 0:
        # Otherwise equal sentences would get equal samples.
        given["seed"] = _column(_SAMPLING["seed"], given, rows) + np.arange(rows)
    return tuple(_column(option, given, rows) for option in SAMPLING_COLUMNS)


def _column(option: RowOption, given: Mapping[str, Any], rows: int) -> np.ndarray:
    """Returns the values of an option for all sentences, `(rows,)`."""
    if option.name not in given:
        return np.full(rows, option.unset, option.dtype)
    value = np.asarray(given[option.name])
    dtype = np.dtype(option.dtype)
    largest = np.iinfo(dtype).max if dtype.kind == "i" else np.finfo(dtype).max
    is_valid = value.dtype.kind in ("iu" if dtype.kind == "i" else "iuf")
    if (
        not is_valid
        or value.shape not in ((), (rows,))
        or not np.all((value >= 0) & (value <= largest))
    ):
        kind = "an integer" if dtype.kind == "i" else "a number"
        raise InputError(
            f"`{option.name}` must be {kind} of at least 0, or one for each of {rows} sentences. "
            f"Received: {option.name}={shown(given[option.name])}"
        )
    return np.broadcast_to(value.astype(dtype), (rows,))
