"""The `tf.data` pipeline from the shards of prepared folders to batches."""

import dataclasses
import functools
import itertools
from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from tf_transformer.errors import InputError
from tf_transformer.text.framing import shift_right
from tf_transformer.text.special_ids import PAD_ID
from training.config import DataConfig
from training.data.bucketing import bucket_batch_sizes, bucket_boundaries
from training.prepared.curriculum import Curriculum
from training.prepared.data_service import check_service
from training.prepared.prepared_corpus import PreparedCorpus
from training.prepared.prepared_folder import PreparedFolder, relative_weights

# Purposes of random draws, which are folded into the seed.
_SHARDS, _PAIRS, _BATCHES = range(3)


class PreparedText(PreparedCorpus):
    """Prepared corpora with the same vocabulary, batched as `ParallelText` batches text.

    The order is a function of the seed. An epoch visits shards in random order: all shards of the
    folder with the largest weight, and of each other folder a number in proportion to its weight,
    taken in rotation, so that no shard occurs twice in an epoch. Consecutive shards with together
    about `shuffle_buffer` pairs form a block. The pairs of a block are shuffled and bucketed into
    batches, and these are shuffled. The number of batches of a block follows from the lengths in
    `prepared.json`, so a resumed run skips blocks without reading them.

    Args:
        folders: the prepared folders with their weights.
        config: settings of the batches.
        service: address of a tf.data service that makes the batches, such as
            "grpc://localhost:5050"; None makes them in this process. The service must have one
            worker, and find the folders under the same paths.

    Raises:
        InputError: a folder is not prepared, is unfinished or damaged, the folders have different
            vocabularies, or no pair is short enough.
        OSError: the service does not answer.
    """

    def __init__(
        self, folders: Sequence[PreparedFolder], config: DataConfig, service: str | None = None
    ):
        super().__init__(folders, service)
        self.check(config)
        self.config = config
        if service:
            check_service(service)
        self._boundaries = bucket_boundaries(config.max_length)
        sizes = bucket_batch_sizes(self._boundaries, config.batch_tokens, config.batch_sentences)
        self._batch_sizes = sizes[: len(self._boundaries)]
        # A shard has no pairs if all of them were duplicates.
        by_folder = [
            [
                (folder.path / shard["name"], shard)
                for shard in description["shards"]
                if shard["pairs"]
            ]
            for folder, description in zip(folders, self._descriptions, strict=True)
        ]
        shards = list(itertools.chain.from_iterable(by_folder))
        self._num_shards = [len(shards) for shards in by_folder]
        self._files = [str(path) for path, _ in shards]
        self._bucket_sizes = np.array([self._count_by_bucket(shard) for _, shard in shards])
        largest = max(shard["pairs"] for _, shard in shards)
        self._shards_in_block = max(1, round(config.shuffle_buffer / largest))
        if not self._bucket_sizes.any():
            raise InputError(
                f"every pair of {folders[0].path} is longer than data.max_length="
                f"{config.max_length}; set a larger one"
            )

    @property
    def num_pairs(self) -> int:
        """Number of pairs in all folders that are short enough."""
        return int(self._bucket_sizes.sum())

    def training_batches(self, seed: int, first_step: int = 0) -> tf.data.Dataset:
        """Returns an endless stream of batches, which is a pure function of the seed.

        Args:
            seed: seed of the order.
            first_step: number of batches to skip, most of them without reading.
        """
        if self.config.curriculum:
            stream = self._curriculum_batches(seed, first_step)
        else:
            stream = self._shuffled_batches(seed, first_step)
        if self.service:
            # Without sharding, the service's only worker makes the whole stream, in order.
            sharing = tf.data.experimental.service.ShardingPolicy.OFF
            stream = stream.apply(tf.data.experimental.service.distribute(sharing, self.service))
        return stream.prefetch(tf.data.AUTOTUNE)

    def _curriculum_batches(self, seed, first_step):
        config = dataclasses.replace(self.config, curriculum=[])
        streams = [
            functools.partial(PreparedText([folder], config).training_batches, seed)
            for folder in self.folders
        ]
        return Curriculum(self.config.curriculum).batches(streams, first_step)

    def _shuffled_batches(self, seed, first_step):
        position = self._position(first_step, seed)
        first_epoch, first_block, first_batch = (tf.constant(at, tf.int64) for at in position)

        def blocks_of(epoch):
            visits = self._visits(seed, epoch)
            blocks = tf.data.Dataset.from_tensor_slices(visits).batch(self._shards_in_block)
            skipped = first_block * tf.cast(epoch == first_epoch, tf.int64)
            return blocks.enumerate().skip(skipped).map(lambda *block: (epoch, *block))

        def read(epoch, block, shards):
            sides = self._read(shards)
            is_first = (epoch == first_epoch) & (block == first_block)
            skipped = first_batch * tf.cast(is_first, tf.int64)
            return sides, *self._split(sides, shards, seed, epoch, block), skipped

        def batches(sides, order, begins, ends, skipped):
            indices = tf.data.Dataset.range(skipped, tf.size(begins, tf.int64))
            return indices.map(
                lambda index: _batch(sides, order[begins[index] : ends[index]]),
                num_parallel_calls=tf.data.AUTOTUNE,
                deterministic=True,
            )

        epochs = tf.data.Dataset.range(first_epoch, 2**31)
        return epochs.flat_map(blocks_of).map(read).prefetch(1).flat_map(batches)

    def _count_by_bucket(self, shard: dict) -> np.ndarray:
        """Returns the number of a shard's pairs in each bucket, without those that are too long."""
        buckets = np.searchsorted(self._boundaries, range(len(shard["lengths"])), side="right")
        num_buckets = len(self._boundaries)
        counts = np.bincount(buckets, shard["lengths"], num_buckets + 1)
        return counts[:num_buckets].astype(int)

    def _visits_in_epoch(self) -> list[float]:
        """Returns how many shards of each folder an epoch visits, on average."""
        folders = zip(relative_weights(self.folders), self._num_shards, strict=True)
        return [weight * num_shards + 1e-9 for weight, num_shards in folders]

    def _visits(self, seed: int, epoch: tf.Tensor) -> tf.Tensor:
        """Returns the shards in the order of an epoch; each folder's rotate over the epochs."""
        first, visits = 0, []
        epoch = tf.cast(epoch, tf.float64)
        for num_shards, share in zip(self._num_shards, self._visits_in_epoch(), strict=True):
            begin, end = (tf.cast(tf.floor(share * at), tf.int64) for at in (epoch, epoch + 1))
            visits.append(first + tf.range(begin, end) % num_shards)
            first += num_shards
        key = _key(seed, _SHARDS, epoch)
        return tf.random.experimental.stateless_shuffle(tf.concat(visits, 0), key)

    def _position(self, step: int, seed: int) -> tuple[int, int, int]:
        """Returns the epoch of a step, the block in the epoch, and the batch in the block."""
        epoch = 0
        while True:
            visits = self._visits(seed, epoch).numpy()
            firsts = np.arange(0, len(visits), self._shards_in_block)
            in_blocks = np.add.reduceat(self._bucket_sizes[visits], firsts)
            num_batches = np.sum(-(-in_blocks // self._batch_sizes), axis=1)
            ends = np.cumsum(num_batches)
            if step < ends[-1]:
                block = int(np.searchsorted(ends, step, side="right"))
                return epoch, block, step - int(ends[block] - num_batches[block])
            step -= int(ends[-1])
            epoch += 1

    def _read(self, shards: tf.Tensor) -> dict[str, tuple[tf.Tensor, tf.Tensor]]:
        """Reads all pairs of some shards: values and row splits of the ragged ids of each side."""
        records = tf.data.TFRecordDataset(tf.gather(self._files, shards), buffer_size=1 << 20)
        ids = tf.io.parse_example(
            records.batch(2**31).get_single_element(),
            {
                name: tf.io.RaggedFeature(tf.int64, row_splits_dtype=tf.int64)
                for name in self._vocab_sizes
            },
        )
        sides = {}
        for name, side in ids.items():
            # Checked before the cast to 32 bits. `check_records` then finds the record.
            tf.debugging.assert_positive(side.row_lengths(), f"{name}: an empty record")
            tf.debugging.assert_positive(side.values, f"{name}: an id that is not positive")
            vocab_size = tf.constant(self._vocab_sizes[name], tf.int64)
            tf.debugging.assert_less(side.values, vocab_size, f"{name}: an id out of range")
            sides[name] = (tf.cast(side.values, tf.int32), side.row_splits)
        return sides

    def _split(
        self, sides: dict, shards: tf.Tensor, seed: int, epoch: tf.Tensor, block: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        """Splits the block of some shards into batches.

        Returns:
            The order of the pairs `(pairs,)`, and begin and end of each batch in it, `(batches,)`.
        """
        lengths = [splits[1:] - splits[:-1] for _, splits in sides.values()]
        buckets = tf.searchsorted(
            tf.constant(self._boundaries, tf.int64), tf.reduce_max(lengths, axis=0), side="right"
        )
        key = _key(seed, _PAIRS, epoch, block)
        draws = tf.random.stateless_uniform(tf.shape(buckets), key, 0, 0.999, tf.float64)
        order = tf.argsort(tf.cast(buckets, tf.float64) + draws)
        num_buckets = len(self._boundaries)
        counts = tf.math.bincount(buckets, minlength=num_buckets + 1, dtype=tf.int64)[:num_buckets]
        described = tf.reduce_sum(tf.gather(self._bucket_sizes, shards), axis=0)
        tf.debugging.assert_equal(counts, described, "records of other lengths than described")
        ends = tf.cumsum(counts)
        batch_begins = tf.ragged.range(
            ends - counts, ends, tf.constant(self._batch_sizes, tf.int64)
        )
        bucket_ends = tf.repeat(ends, batch_begins.row_lengths())
        bucket_sizes = tf.repeat(self._batch_sizes, batch_begins.row_lengths())
        begins = batch_begins.values
        batch_ends = tf.minimum(begins + tf.cast(bucket_sizes, tf.int64), bucket_ends)
        key = _key(seed, _BATCHES, epoch, block)
        batches = tf.random.experimental.stateless_shuffle(tf.range(tf.size(begins)), key)
        return order, tf.gather(begins, batches), tf.gather(batch_ends, batches)


def _key(seed: int, purpose: int, *indices: tf.Tensor) -> tf.Tensor:
    """Returns the seed of one draw, `(2,)`, by folding the indices into the seed."""
    key = tf.constant([seed, purpose], tf.int64)
    for index in indices:
        key = tf.random.experimental.stateless_fold_in(key, tf.cast(index, tf.int64))
    return key


def _batch(sides: dict, rows: tf.Tensor) -> tuple[dict[str, tf.Tensor], tf.Tensor]:
    """Returns the pairs of these rows as a batch of the form that `ParallelText` describes."""
    ids = {}
    for name, (values, splits) in sides.items():
        side = tf.RaggedTensor.from_row_splits(values, splits, validate=False)
        ids[name] = tf.gather(side, rows).to_tensor(PAD_ID)
    labels = ids["target"]
    return ids | {"target": shift_right(labels)}, labels
