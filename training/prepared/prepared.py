"""Training from prepared folders: shards of token ids to batches, as a stream."""

import functools
import itertools
import json
import pathlib
from collections.abc import Iterator, Sequence

import numpy as np
import tensorflow as tf
import tqdm

from tf_transformer.errors import InputError
from tf_transformer.text.framing import shift_right
from tf_transformer.text.special_ids import PAD_ID
from tf_transformer.text.vocabulary import Vocabulary
from training.config import DataConfig, VocabularyConfig
from training.data.bucketing import bucket_batch_sizes, bucket_boundaries
from training.prepared.data_service import check_service
from training.prepared.prepared_folder import (
    Models,
    PreparedFolder,
    digest_of,
    read_description,
    read_models,
    vocabulary_settings,
)
from training.prepared.shard_checks import check_digest, check_records, remedy

# What random numbers are drawn for.
_SHARDS, _PAIRS, _BATCHES = range(3)


class PreparedText:
    """Prepared corpora of one vocabulary, as the batches that `ParallelText` makes of text.

    The order is a function of the seed. An epoch visits shards in random order: all those of the
    folder of the largest weight, and of the others as many as their weights say, in turn; so no
    shard comes twice in an epoch. Some shards that follow each other, together about
    `shuffle_buffer` pairs, are one block. The pairs of a block are shuffled, cut into batches of
    like lengths, and these shuffled. How many batches a block has follows from the lengths alone,
    which are in `prepared.json`; so a run that goes on skips blocks without reading them.

    Args:
        folders: with their weights.
        config: how pairs become batches.
        service: address of a tf.data service that makes the batches, as in
            "grpc://localhost:5050"; None makes them in this process. It must have one worker, and
            reach the folders under the same paths.

    Raises:
        ValueError: a folder is not prepared or not whole, they differ in their vocabulary, or the
            service does not answer.
    """

    def __init__(
        self, folders: Sequence[PreparedFolder], config: DataConfig, service: str | None = None
    ):
        descriptions = [read_description(folder.path) for folder in folders]
        for folder, description in zip(folders, descriptions, strict=True):
            if description["tokenizers"] != descriptions[0]["tokenizers"]:
                raise InputError(
                    f"{folder.path} has another vocabulary than {folders[0].path}; prepare it "
                    f"with --vocabulary {folders[0].path}"
                )
        self.folders = tuple(folders)
        self.config = config
        self.service = service
        if service:
            check_service(service)
        self._descriptions = descriptions
        self._boundaries = bucket_boundaries(config.max_length)
        sizes = bucket_batch_sizes(self._boundaries, config.batch_tokens)
        if config.batch_sentences is not None:
            sizes = [config.batch_sentences] * len(sizes)
        self._batch_sizes = sizes[: len(self._boundaries)]
        # Duplicates may have left a shard without pairs.
        by_folder = [
            [
                (folder.path / shard["name"], shard)
                for shard in description["shards"]
                if shard["pairs"]
            ]
            for folder, description in zip(folders, descriptions, strict=True)
        ]
        shards = list(itertools.chain.from_iterable(by_folder))
        self._numbers_of_shards = [len(shards) for shards in by_folder]
        self._files = [str(path) for path, _ in shards]
        self._bucket_sizes = np.array([self._count_by_bucket(shard) for _, shard in shards])
        largest = max(shard["pairs"] for _, shard in shards)
        self._shards_in_block = max(1, round(config.shuffle_buffer / largest))
        for path, shard in shards:
            if not path.is_file():
                raise InputError(f"{path}: no such file; {remedy(path.parent)}")
            if (size := path.stat().st_size) != shard["bytes"]:
                raise InputError(
                    f"{path}: damaged, it has {size:,} bytes, and should have {shard['bytes']:,}; "
                    f"{remedy(path.parent)}"
                )
        if not self._bucket_sizes.any():
            raise InputError(
                f"no pair of {folders[0].path} is as short as data.max_length={config.max_length}"
            )

    @property
    def has_source(self) -> bool:
        """False for the sentences of a language model."""
        return self._descriptions[0]["tokenizers"][0] is not None

    @property
    def models(self) -> Models:
        """The SentencePiece models.

        Raises:
            ValueError: they are not those that the corpus was prepared with.
        """
        models = read_models(self.folders[0].path)
        if [model and digest_of(model) for model in models] != self._descriptions[0]["tokenizers"]:
            raise InputError(
                f"{self.folders[0].path}: its vocabulary is not the one it was prepared with"
            )
        return models

    @property
    def vocabulary(self) -> VocabularyConfig:
        """The settings of the vocabulary."""
        return vocabulary_settings(self.folders[0].path, self._descriptions[0])

    def check_digests(self) -> None:
        """Reads all files, with a progress bar.

        Raises:
            ValueError: one has other bytes than `prepare` has written.
        """
        shards = list(self._shards())
        for path, shard in tqdm.tqdm(shards, "checking the shards", leave=False, disable=None):
            check_digest(path, shard)

    def check_records(self) -> None:
        """Reads all records, to find what training could not read.

        Raises:
            ValueError: one is damaged, or not of the vocabulary; names file and record.
        """
        for path, shard in self._shards():
            check_records(path, shard, self._vocab_sizes)

    def _shards(self) -> Iterator[tuple[pathlib.Path, dict]]:
        for folder, description in zip(self.folders, self._descriptions, strict=True):
            for shard in description["shards"]:
                yield folder.path / shard["name"], shard

    @functools.cached_property
    def _vocab_sizes(self) -> dict[str, int]:
        """Of each side that the records have."""
        sides = zip(("source", "target"), self.models, strict=True)
        return {name: Vocabulary(model).vocab_size for name, model in sides if model is not None}

    @property
    def num_pairs(self) -> int:
        """Pairs in all folders that are short enough."""
        return int(self._bucket_sizes.sum())

    @property
    def digest(self) -> str:
        """Of all shards and weights: equal for equal training data."""
        weights = self._weights()
        content = [
            [weight, [[shard["digest"], shard["pairs"]] for shard in description["shards"]]]
            for weight, description in zip(weights, self._descriptions, strict=True)
        ]
        return digest_of(json.dumps([self._descriptions[0]["tokenizers"], content]).encode())

    def training_batches(self, seed: int, first_step: int = 0) -> tf.data.Dataset:
        """An endless stream of batches, a pure function of the seed.

        Args:
            seed: of the order.
            first_step: batches that are skipped; most of them without reading.
        """
        position = self._position(first_step, seed)
        first_epoch, first_block, first_batch = (tf.constant(at, tf.int64) for at in position)

        def epoch(number):
            visits = self._visits(seed, number)
            blocks = tf.data.Dataset.from_tensor_slices(visits).batch(self._shards_in_block)
            skipped = first_block * tf.cast(number == first_epoch, tf.int64)
            return blocks.enumerate().skip(skipped).map(lambda *block: (number, *block))

        def read(number, block, shards):
            sides = self._read(shards)
            is_first = (number == first_epoch) & (block == first_block)
            skipped = first_batch * tf.cast(is_first, tf.int64)
            return sides, *self._cut(sides, shards, seed, number, block), skipped

        def batches(sides, order, begins, ends, skipped):
            numbers = tf.data.Dataset.range(skipped, tf.size(begins, tf.int64))
            return numbers.map(
                lambda number: _batch(sides, order[begins[number] : ends[number]]),
                num_parallel_calls=tf.data.AUTOTUNE,
                deterministic=True,
            )

        blocks = tf.data.Dataset.range(first_epoch, 2**31).flat_map(epoch).map(read).prefetch(1)
        stream = blocks.flat_map(batches)
        if self.service:
            # "Off" does not share the stream among the service's workers, so it stays in order.
            sharing = tf.data.experimental.service.ShardingPolicy.OFF
            stream = stream.apply(tf.data.experimental.service.distribute(sharing, self.service))
        return stream.prefetch(tf.data.AUTOTUNE)

    def _count_by_bucket(self, shard: dict) -> np.ndarray:
        """Pairs of a shard in every bucket; those that are too long are in none."""
        buckets = np.searchsorted(self._boundaries, range(len(shard["lengths"])), side="right")
        number = len(self._boundaries)
        return np.bincount(buckets, shard["lengths"], number + 1)[:number].astype(int)

    def _weights(self) -> list[float]:
        """The weights, the largest of them 1."""
        largest = max(folder.weight for folder in self.folders)
        return [folder.weight / largest for folder in self.folders]

    def _visits_in_epoch(self) -> list[float]:
        """How many shards of each folder an epoch visits, on average."""
        numbers = zip(self._weights(), self._numbers_of_shards, strict=True)
        return [weight * number + 1e-9 for weight, number in numbers]

    def _visits(self, seed: int, epoch: tf.Tensor) -> tf.Tensor:
        """The shards of an epoch in their order. Each folder's come in turn, epoch by epoch."""
        first, visits = 0, []
        epoch = tf.cast(epoch, tf.float64)
        for number, share in zip(self._numbers_of_shards, self._visits_in_epoch(), strict=True):
            begin, end = (tf.cast(tf.floor(share * at), tf.int64) for at in (epoch, epoch + 1))
            visits.append(first + tf.range(begin, end) % number)
            first += number
        key = _key(seed, _SHARDS, epoch)
        return tf.random.experimental.stateless_shuffle(tf.concat(visits, 0), key)

    def _position(self, step: int, seed: int) -> tuple[int, int, int]:
        """The epoch, the block in it, and the batch in that, at which a step lies."""
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
        """All pairs of some shards: values and row splits of the ragged ids of each side."""
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
            # Before 64 bits become 32; `check_records` says which one it is.
            tf.debugging.assert_positive(side.row_lengths(), f"{name}: an empty record")
            tf.debugging.assert_positive(side.values, f"{name}: an id that is not positive")
            tf.debugging.assert_less(
                side.values, tf.constant(self._vocab_sizes[name], tf.int64), f"{name}: a large id"
            )
            sides[name] = (tf.cast(side.values, tf.int32), side.row_splits)
        return sides

    def _cut(
        self, sides: dict, shards: tf.Tensor, seed: int, epoch: tf.Tensor, block: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        """Cuts the block of some shards into batches.

        Returns:
            The order of its pairs, and where each batch begins and ends in it.
        """
        lengths = [splits[1:] - splits[:-1] for _, splits in sides.values()]
        buckets = tf.searchsorted(
            tf.constant(self._boundaries, tf.int64), tf.reduce_max(lengths, axis=0), side="right"
        )
        key = _key(seed, _PAIRS, epoch, block)
        draws = tf.random.stateless_uniform(tf.shape(buckets), key, 0, 0.999, tf.float64)
        order = tf.argsort(tf.cast(buckets, tf.float64) + draws)
        number = len(self._boundaries)
        counts = tf.math.bincount(buckets, minlength=number + 1, dtype=tf.int64)[:number]
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
        places = tf.random.experimental.stateless_shuffle(tf.range(tf.size(begins)), key)
        return order, tf.gather(begins, places), tf.gather(batch_ends, places)


def _key(seed: int, purpose: int, *numbers: tf.Tensor) -> tf.Tensor:
    """The seed of one draw, `(2,)`."""
    key = tf.constant([seed, purpose], tf.int64)
    for number in numbers:
        key = tf.random.experimental.stateless_fold_in(key, tf.cast(number, tf.int64))
    return key


def _batch(sides: dict, rows: tf.Tensor) -> tuple[dict[str, tf.Tensor], tf.Tensor]:
    """The pairs of these rows as `ParallelText` gives them."""
    ids = {}
    for name, (values, splits) in sides.items():
        side = tf.RaggedTensor.from_row_splits(values, splits, validate=False)
        ids[name] = tf.gather(side, rows).to_tensor(PAD_ID)
    labels = ids["target"]
    return ids | {"target": shift_right(labels)}, labels
