"""Prepared folders as one training corpus, before it is batched."""

import functools
import pathlib
from collections.abc import Iterator, Sequence

import tqdm

from tf_transformer.errors import InputError
from tf_transformer.text.vocabulary import Vocabulary
from training.config import DataConfig, VocabularyConfig
from training.prepared.prepared_folder import (
    PreparedFolder,
    SentencePieceModels,
    corpus_digest,
    digests_of,
    read_description,
    read_models,
    vocabulary_settings,
)
from training.prepared.shard_checks import check_digest, check_records, check_size


class PreparedCorpus:
    """Prepared folders with the same vocabulary.

    Args:
        folders: the prepared folders with their weights.
        service: address of a tf.data service that makes the batches, such as
            "grpc://localhost:5050"; None makes them in the training process. The service must have
            one worker, and find the folders under the same paths.

    Raises:
        InputError: a folder is not prepared, is unfinished or damaged, or the folders have
            different vocabularies.
    """

    def __init__(self, folders: Sequence[PreparedFolder], service: str | None = None):
        self.folders = tuple(folders)
        self.service = service
        self._descriptions = [read_description(folder.path) for folder in folders]
        for folder, description in zip(folders, self._descriptions, strict=True):
            if description["tokenizers"] != self._descriptions[0]["tokenizers"]:
                raise InputError(
                    f"{folder.path} has another vocabulary than {folders[0].path}; prepare it "
                    f"with --vocabulary {folders[0].path}"
                )

    @property
    def has_source(self) -> bool:
        """Whether the pairs have a source; a language model has none."""
        return self._descriptions[0]["tokenizers"][0] is not None

    @property
    def models(self) -> SentencePieceModels:
        """The SentencePiece models of source and target.

        Raises:
            InputError: the corpus was prepared with other models.
        """
        models = read_models(self.folders[0].path)
        if digests_of(models) != self._descriptions[0]["tokenizers"]:
            raise InputError(
                f"{self.folders[0].path}: its vocabulary is not the one it was prepared with"
            )
        return models

    @property
    def vocabulary(self) -> VocabularyConfig:
        """The settings of the vocabulary."""
        return vocabulary_settings(self.folders[0].path, self._descriptions[0])

    def check_digests(self) -> None:
        """Compares the digests of all shards with `prepared.json`, with a progress bar.

        Raises:
            InputError: a shard is damaged; the message names it.
        """
        shards = list(self.shards())
        for path, shard in tqdm.tqdm(shards, "checking the shards", leave=False, disable=None):
            check_digest(path, shard)

    def check_records(self) -> None:
        """Checks all records, to find the one that training could not read.

        Raises:
            InputError: a record is damaged or has invalid ids; the message names file and
                record.
        """
        for path, shard in self.shards():
            check_records(path, shard, self._vocab_sizes)

    def check(self, config: DataConfig) -> None:
        """Checks the sizes of all shards, and the weights of a curriculum.

        Raises:
            InputError: a shard is missing or damaged, or the curriculum has other weights.
        """
        _check_curriculum(self.folders, config)
        for path, shard in self.shards():
            if shard["pairs"]:
                check_size(path, shard["bytes"])

    def shards(self) -> Iterator[tuple[pathlib.Path, dict]]:
        """Yields the path of each shard, and what its folder's description says of it."""
        for folder, description in zip(self.folders, self._descriptions, strict=True):
            for shard in description["shards"]:
                yield folder.path / shard["name"], shard

    @functools.cached_property
    def _vocab_sizes(self) -> dict[str, int]:
        """Vocabulary sizes of the sides that the records have."""
        sides = zip(("source", "target"), self.models, strict=True)
        return {name: Vocabulary(model).vocab_size for name, model in sides if model is not None}

    @property
    def digest(self) -> str:
        """Digest of all shards and weights; equal for equal training data."""
        return corpus_digest(self.folders, self._descriptions)


def _check_curriculum(folders, config):
    if not config.curriculum:
        return
    for phase in config.curriculum:
        if len(phase.weights) != len(folders):
            raise InputError(
                f"'data.curriculum': expected a weight for each of {len(folders)} prepared "
                f"folders. Received: {phase.weights}"
            )
    for folder in folders:
        if folder.weight != 1:
            raise InputError(
                f"{folder.path}={folder.weight:g} has a weight, and 'data.curriculum' has others; "
                "leave out one of them"
            )
