"""The time, the cost and the memory of a training run, from the speed of its devices."""

import dataclasses
import itertools
from collections.abc import Sequence

from tf_transformer.config import TransformerConfig
from tf_transformer.errors import InputError
from training.config import DataConfig
from training.data.bucketing import bucket_batch_sizes, bucket_boundaries
from training.planning.operations import training_operations

# Bytes of a weight; of its gradient, and of the two moments of Adam, if it is trained; float32.
_WEIGHT_BYTES, _GRADIENT_BYTES, _MOMENT_BYTES = 4, 4, 8
_HOUR = 3600


@dataclasses.dataclass(frozen=True)
class Corpus:
    """What a plan needs to know of a corpus.

    Args:
        lengths: number of pairs by the length of the longer side, in tokens with the end token.
        source_tokens: tokens of all sources.
        target_tokens: tokens of all targets.
    """

    lengths: Sequence[int]
    source_tokens: int
    target_tokens: int

    @property
    def num_pairs(self) -> int:
        """Number of pairs."""
        return sum(self.lengths)

    @classmethod
    def of_mean_lengths(cls, num_pairs: int, source: float, target: float) -> "Corpus":
        """Returns a corpus whose pairs all have these lengths."""
        longer = round(max(source, target))
        lengths = [0] * longer + [num_pairs]
        return cls(lengths, round(num_pairs * source), round(num_pairs * target))


@dataclasses.dataclass(frozen=True)
class Batches:
    """The batches of one epoch.

    Args:
        number: number of batches.
        rows: mean number of pairs of a batch.
        positions: mean number of positions of a row, padding included, on each side.
        target_tokens: mean number of target tokens of a batch, without padding.
    """

    number: float
    rows: float
    positions: float
    target_tokens: float


def batches_of(corpus: Corpus, config: DataConfig) -> Batches:
    """Computes the batches of an epoch, see `bucket_batch_sizes`.

    Training also makes some smaller batches, of what is left of each bucket.

    Raises:
        InputError: all pairs are too long.
    """
    boundaries = bucket_boundaries(config.max_length)
    sizes = bucket_batch_sizes(boundaries, config.batch_tokens, config.batch_sentences)
    number = rows = positions = 0.0
    for size, (begin, end) in zip(sizes, itertools.pairwise([0, *boundaries]), strict=False):
        pairs = corpus.lengths[begin:end]
        count = sum(pairs)
        if count:
            longest = max(length for length, many in enumerate(pairs, begin) if many)
            number += count / size
            rows += count
            positions += count * longest
    if not rows:
        raise InputError(f"no pair has at most {config.max_length} tokens a side (data.max_length)")
    kept = rows / corpus.num_pairs
    return Batches(number, rows / number, positions / rows, corpus.target_tokens * kept / number)


def operations_per_batch(config: TransformerConfig, batches: Batches, num_passes: int = 1) -> float:
    """Returns the operations of training on a batch, see `training_operations`.

    Args:
        config: the model.
        batches: the batches of an epoch.
        num_passes: passes of each batch through the model, 2 for R-Drop.
    """
    pair = training_operations(config).of_pair(batches.positions, batches.positions)
    return num_passes * batches.rows * pair


@dataclasses.dataclass(frozen=True)
class Plan:
    """An estimate.

    Args:
        num_weights: weights of the model, with those of LoRA.
        num_trained: how many of them are trained.
        state_bytes: memory per device for weights, gradients and Adam's moments.
        epochs: passes over the corpus.
        seconds_per_step: time of a step: computing, and adding up the gradients of all devices.
        reduction_seconds: the part of it for the gradients.
        hours: of the whole training, without validation.
        cost: of all devices, in the unit of the price; None without a price.
    """

    num_weights: int
    num_trained: int
    state_bytes: int
    epochs: float
    seconds_per_step: float
    reduction_seconds: float
    hours: float
    cost: float | None


def make_plan(
    config: TransformerConfig,
    batches: Batches,
    steps: int,
    *,
    num_weights: int,
    num_trained: int,
    num_devices: int,
    operations_per_second: float,
    bandwidth: float,
    num_passes: int = 1,
    price: float | None = None,
) -> Plan:
    """Estimates a training run.

    A step takes the operations of its batch, divided among the devices, and, with several devices,
    a ring's reduction of the gradients: each device sends and receives 2 (n - 1) / n of their
    bytes. The two are taken to happen one after the other. Operations are counted as if all weights
    were trained.

    Args:
        config: the model.
        batches: the batches of an epoch.
        steps: number of steps.
        num_weights: number of weights of the model, with those of LoRA.
        num_trained: number of weights that are trained.
        num_devices: number of devices.
        operations_per_second: operations per second of a device, see `Machine`.
        bandwidth: bytes per second between two devices.
        num_passes: see `operations_per_batch`.
        price: price of a device for an hour.
    """
    operations = operations_per_batch(config, batches, num_passes)
    computing = operations / num_devices / operations_per_second
    sent = 2 * (num_devices - 1) / num_devices * num_trained * _GRADIENT_BYTES
    reduction = sent / bandwidth
    hours = steps * (computing + reduction) / _HOUR
    return Plan(
        num_weights=num_weights,
        num_trained=num_trained,
        state_bytes=_WEIGHT_BYTES * num_weights + (_GRADIENT_BYTES + _MOMENT_BYTES) * num_trained,
        epochs=steps / batches.number,
        seconds_per_step=computing + reduction,
        reduction_seconds=reduction,
        hours=hours,
        cost=None if price is None else hours * num_devices * price,
    )
