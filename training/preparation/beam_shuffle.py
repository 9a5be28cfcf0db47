"""Shuffling all pairs of a corpus, over all shards.

Every pair gets a random key of 64 bits, which depends only on the seed, the pair's shard and its
position there. The order of the keys is the order of the pairs; each shard gets one range of keys.
"""

import pathlib
from collections.abc import Iterable, Iterator

import numpy as np

from tf_transformer.apache_beam.pipelines import failures_are_kept
from tf_transformer.storage.own_files import replacing_own
from training.preparation.duplicates import ranges_of
from training.preparation.shard_tasks import write_description
from training.preparation.shards import ShardFiles, read_metadata
from training.prepared.prepared_folder import WORK_NAME
from training.prepared.records import read_records, write_record

# Some pairs of a shard: its index, their keys `(pairs,)`, lengths `(pairs, 2)` and records.
Part = tuple[int, np.ndarray, np.ndarray, list[bytes]]


def random_keys(seed: int, index: int, num_pairs: int) -> np.ndarray:
    """Returns the keys of a shard's pairs, `(num_pairs,)` uint64.

    They are a stream of Philox (Salmon et al., 2011), the same in every version of NumPy.
    """
    return np.random.Philox(key=np.array([seed, index], np.uint64)).random_raw(num_pairs)


def scatter(
    item: tuple[int, np.ndarray], output: pathlib.Path, num_shards: int, seed: int
) -> Iterator[tuple[int, Part]]:
    """Yields the pairs of a shard, by the index of the shard that they are shuffled to.

    Args:
        item: index of the shard, and bool `(pairs,)`, whether each pair is kept.
        output: the prepared folder.
        num_shards: number of shards of the preparation.
        seed: seed of the order.
    """
    index, keep = item
    with failures_are_kept(output / WORK_NAME):
        shard = ShardFiles(index, output)
        lengths = read_metadata(shard).lengths
        keys = random_keys(seed, index, len(keep))
        targets = ranges_of(keys, num_shards)
        with open(shard.raw_path, "rb") as file:
            records = list(read_records(file))
        # A shard to which no pair is shuffled is written, too.
        yield index, (index, keys[:0], lengths[:0], [])
        for target in np.unique(targets[keep]).tolist():
            selected = np.flatnonzero(keep & (targets == target))
            if not ShardFiles(target, output).description_path.exists():
                parts = [records[position] for position in selected.tolist()]
                yield target, (index, keys[selected], lengths[selected], parts)


def gather(item: tuple[int, Iterable[Part]], output: pathlib.Path) -> None:
    """Writes a shard from the pairs that are shuffled to it, and its description.

    Args:
        item: index of the shard, and parts of all shards.
        output: the prepared folder.
    """
    index, parts = item
    with failures_are_kept(output / WORK_NAME):
        shard = ShardFiles(index, output)
        if shard.description_path.exists():
            return
        ordered = sorted(parts, key=lambda part: part[0])
        order = np.argsort(np.concatenate([keys for _, keys, _, _ in ordered]), kind="stable")
        records = [record for *_, part in ordered for record in part]
        with replacing_own(shard.path) as path, open(path, "wb") as file:
            for position in order.tolist():
                write_record(file, records[position])
        write_description(shard, np.concatenate([lengths for _, _, lengths, _ in ordered])[order])
