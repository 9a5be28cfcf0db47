"""The tasks of `prepare` for one shard: tokenizing its lines, and removing duplicates."""

import collections
import contextlib
import hashlib
import os
import pathlib
from collections.abc import Iterator, Sequence

import numpy as np

from tf_transformer.errors import InputError
from tf_transformer.storage.json_files import write_json
from tf_transformer.storage.own_files import replacing_own
from tf_transformer.text.language_tags import lacks_tag, language_tag, without_tags
from tf_transformer.text.line_count import split_lines
from tf_transformer.text.reading import NotTextError
from tf_transformer.text.special_ids import END_ID
from tf_transformer.text.text_file import TextFile
from tf_transformer.text.vocabulary import Vocabulary
from training.preparation.language_filter import OTHER_LANGUAGE, StoredFilter
from training.preparation.shards import (
    Shard,
    ShardFiles,
    ShardMetadata,
    read_metadata,
    write_metadata,
)
from training.prepared.prepared_folder import digest_of_file, read_models
from training.prepared.records import encode_pair, read_records, write_record

# Number of lines per call of the tokenizer.
_CHUNK = 1000
# Number of dropped lines to name for each kind of fault.
_NUM_EXAMPLES = 3

FAULTS = (
    "not UTF-8",
    "without the column",
    "empty on a side",
    "too long",
    "without a language tag",
)


class ShardTokenizer:
    """Tokenizes shards.

    Args:
        folder: folder of the SentencePiece models; a language model has none of the source.
        languages: languages whose tags the source must begin with; empty requires none.
        max_length: maximum number of tokens of a side, including the end token; longer pairs are
            dropped.
        stored_filter: finds pairs to drop because a side is in another language; None keeps all.
    """

    def __init__(
        self,
        folder: pathlib.Path,
        languages: Sequence[str],
        max_length: int,
        stored_filter: StoredFilter | None = None,
    ):
        source, target = read_models(folder)
        # The source of a language model is not used.
        self._vocabularies = [Vocabulary(model) for model in (source or target, target)]
        self._languages = languages
        self._tags = tuple(language_tag(language) for language in languages)
        self._max_length = max_length
        self._language_filter = None if stored_filter is None else stored_filter.read()

    def make_shard(self, shard: Shard, sides: list[bytes | None]) -> None:
        """Tokenizes the lines of a shard, and writes the valid pairs and their metadata.

        Args:
            shard: the shard to make.
            sides: the bytes of the lines of source and target.

        Raises:
            InputError: the number of lines has changed since the files were counted.
        """
        drops = _Drops()
        digests, lengths = [], []
        with replacing_own(shard.raw_path) as path, open(path, "wb") as file:
            for chunk in _chunks(_readable_pairs(shard, sides, self._tags, drops)):
                digest = b"".join(_pair_digest(*pair) for _, *pair in chunk)
                ids = [self._encode(side, [pair[1 + side] for pair in chunk]) for side in (0, 1)]
                is_other = self._in_other_language(chunk)
                kept = []
                for index, (line, source, target) in enumerate(
                    zip((line for line, *_ in chunk), *ids, strict=True)
                ):
                    if len(source) < 2 or len(target) < 2:
                        drops.add(FAULTS[2], shard.target, line)
                    elif max(len(source), len(target)) > self._max_length:
                        drops.add(FAULTS[3], shard.target, line)
                    elif is_other[index]:
                        drops.add(OTHER_LANGUAGE, shard.target, line)
                    else:
                        kept.append(index)
                        lengths.append((len(source) if shard.source else 0, len(target)))
                        write_record(file, encode_pair(source if shard.source else None, target))
                digests.append(np.frombuffer(digest, np.uint64)[kept])
        write_metadata(
            shard.metadata_path,
            ShardMetadata(
                np.concatenate([*digests, np.zeros(0, np.uint64)]),
                np.array(lengths, np.int32).reshape(-1, 2),
                dict(drops.faults),
                dict(drops.examples),
            ),
        )

    def _encode(self, side: int, sentences: list[str]) -> list[list[int]]:
        ids = self._vocabularies[side].encode(sentences)
        for sentence in ids:
            sentence.append(END_ID)
        return ids

    def _in_other_language(self, chunk: list[tuple[int, str, str]]) -> Sequence[bool]:
        if self._language_filter is None:
            return [False] * len(chunk)
        pairs = [(without_tags(source, self._languages), target) for _, source, target in chunk]
        return self._language_filter.in_other_language(pairs).tolist()


class _Drops:
    """Counts and first examples of dropped lines, by the kind of fault."""

    def __init__(self) -> None:
        self.faults: collections.Counter[str] = collections.Counter()
        self.examples: dict[str, list[str]] = collections.defaultdict(list)

    def add(self, kind: str, file: TextFile, line: int) -> None:
        self.faults[kind] += 1
        if len(self.examples[kind]) < _NUM_EXAMPLES:
            self.examples[kind].append(f"{file.path}:{line + 1}")


def _readable_pairs(shard, sides, tags, drops) -> Iterator[tuple[int, str, str]]:
    """Yields line indices and sentences; without a source, the target takes its place."""
    files = (shard.source or shard.target, shard.target)
    first = shard.first_line + 1
    target = split_lines(sides[1], first)
    lines = (split_lines(sides[0], first) if shard.source else target, target)
    for file, side in zip(files, lines, strict=True):
        if len(side) != shard.num_lines:
            raise InputError(f"{file.path} has changed while it was read")
    for line, pair in enumerate(zip(*lines, strict=True), shard.first_line):
        sentences = []
        for file, text in zip(files, pair, strict=True):
            try:
                sentences.append(file.decode_line(line + 1, text))
            except ValueError as error:
                kind = FAULTS[0] if isinstance(error, NotTextError) else FAULTS[1]
                drops.add(kind, file, line)
                break
        else:
            if tags and shard.source and lacks_tag(sentences[0], tags):
                drops.add(FAULTS[4], shard.source, line)
            else:
                yield line, *sentences


def _chunks(items: Iterator) -> Iterator[list]:
    chunk = []
    for item in items:
        chunk.append(item)
        if len(chunk) == _CHUNK:
            yield chunk
            chunk = []
    if chunk:
        yield chunk


def _pair_digest(source: str, target: str) -> bytes:
    return hashlib.blake2b(f"{source}\n{target}".encode(), digest_size=8).digest()


def finish_shard(shard: ShardFiles, keep: np.ndarray) -> None:
    """Writes the finished shard and its description, and removes the raw shard.

    Args:
        shard: a shard that a `ShardTokenizer` has made.
        keep: bool `(pairs,)`, whether each pair is kept.
    """
    if shard.raw_path.exists():
        if keep.all():
            os.replace(shard.raw_path, shard.path)
        else:
            _copy_records(shard, keep)
            shard.raw_path.unlink(missing_ok=True)
    write_description(shard, read_metadata(shard).lengths[keep])


def write_description(shard: ShardFiles, lengths: np.ndarray) -> None:
    """Writes the description of a finished shard.

    Args:
        shard: the shard, whose finished file exists.
        lengths: int32 `(pairs, 2)`, tokens of source and target of its pairs.
    """
    description = {
        "name": shard.path.name,
        "pairs": len(lengths),
        "bytes": shard.path.stat().st_size,
        "source_tokens": int(lengths[:, 0].sum()),
        "target_tokens": int(lengths[:, 1].sum()),
        "digest": digest_of_file(shard.path),
        "lengths": np.bincount(lengths.max(axis=1, initial=0)).tolist() if len(lengths) else [],
    }
    with replacing_own(shard.description_path) as path:
        write_json(path, description, indent=None)


def _copy_records(shard: ShardFiles, keep: np.ndarray) -> None:
    with contextlib.ExitStack() as stack:
        raw = stack.enter_context(open(shard.raw_path, "rb"))
        path = stack.enter_context(replacing_own(shard.path))
        file = stack.enter_context(open(path, "wb"))
        for record, is_kept in zip(read_records(raw), keep.tolist(), strict=True):
            if is_kept:
                write_record(file, record)
