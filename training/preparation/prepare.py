"""Preparing large corpora: text files to sharded TFRecords of token ids, in parallel.

    prepared.json             description of the folder; written last
    source.spm, target.spm    SentencePiece models; a language model has no source
    shard-00000.tfrecord      pairs, see `training.prepared.records`; in the order of the text,
                              unless the runner shuffles them
    work-of-prepare/          intermediate files; removed at the end

Every file is written atomically, and its content depends neither on time nor on the runner. A
preparation that was killed can therefore be resumed, and gives the same bytes as an uninterrupted
one.
"""

import dataclasses
import functools
import pathlib
from collections.abc import Sequence
from typing import Any

from tf_transformer.errors import InputError
from tf_transformer.storage.json_files import read_json, write_json
from tf_transformer.storage.own_files import replacing_own
from training.config import TrainingConfig
from training.preparation.file_counts import count_files
from training.preparation.language_filter import OTHER_LANGUAGE, LanguageFilter, StoredFilter
from training.preparation.request import locked_output, start_or_resume
from training.preparation.runner import Runner
from training.preparation.sampled_vocabulary import train_on_sample
from training.preparation.shard_tasks import FAULTS, ShardTokenizer
from training.preparation.shards import (
    Pair,
    Shard,
    plan_shards,
    read_metadata,
    usual_shard_pairs,
)
from training.prepared.existing_vocabulary import vocabulary_for
from training.prepared.prepared_folder import (
    DESCRIPTION_NAME,
    FORMAT_VERSION,
    MAX_BYTES,
    SPM_NAMES,
    SentencePieceModels,
    digests_of,
    read_models,
)


def prepare(
    config: TrainingConfig,
    *,
    files: Sequence[Pair],
    output: pathlib.Path,
    runner: Runner,
    vocabulary: pathlib.Path | None = None,
    shard_pairs: int | None = None,
    keep_duplicates: bool = False,
    language_filter: LanguageFilter | None = None,
) -> dict[str, Any]:
    """Prepares a corpus, or resumes an interrupted call with the same arguments.

    Args:
        config: settings, of which only `vocabulary` and `data.max_length` are used.
        files: pairs of source and target, whose lines are translations of each other; all sources
            are None for a language model.
        output: the folder to write.
        runner: runs the tasks in parallel.
        vocabulary: path of an existing vocabulary, see `read_vocabulary`; None trains one.
        shard_pairs: number of lines per shard; None means `usual_shard_pairs`.
        keep_duplicates: whether to keep pairs that equal an earlier one.
        language_filter: finds pairs to drop because a side is in another language; None keeps all.

    Returns:
        The content of `prepared.json`.

    Raises:
        InputError: a file is invalid, or `output` holds other files or another preparation.
    """
    if shard_pairs is None:
        shard_pairs = usual_shard_pairs(files)
    settings, models = config.vocabulary, None
    if vocabulary:
        settings, models = vocabulary_for(vocabulary, has_source=files[0][0] is not None)
    settings = dataclasses.replace(settings, source_vectors=None, target_vectors=None)
    request = {
        "format_version": FORMAT_VERSION,
        "vocabulary": dataclasses.asdict(settings),
        "given_vocabulary": models and digests_of(models),
        "max_length": config.data.max_length,
        "shard_pairs": shard_pairs,
        "keep_duplicates": keep_duplicates,
        **_optional_request(runner.shuffle_seed, language_filter),
    }
    with locked_output(output) as work:
        counts = count_files(files, work, shard_pairs, runner)
        request["files"] = _describe_files(files, counts)
        finished = start_or_resume(output, work, request)
        if finished is not None:
            return finished
        _write_vocabulary(output, files, counts, settings, models)
        models = read_models(output)
        shards = plan_shards(files, counts, shard_pairs, output)
        stored_filter = None
        if language_filter is not None:
            stored_filter = StoredFilter.write(language_filter, output)
        make_tokenizer = functools.partial(
            ShardTokenizer, output, settings.languages, config.data.max_length, stored_filter
        )
        runner.make_shards(shards, counts, make_tokenizer)
        statistics = _statistics(shards, has_filter=language_filter is not None)
        runner.finish_shards(shards, work, keep_duplicates)
        return _write_description(output, request, models, statistics, shards)


def _optional_request(
    shuffle_seed: int | None, language_filter: LanguageFilter | None
) -> dict[str, Any]:
    """Returns what a request contains only if it is given."""
    request: dict[str, Any] = {}
    if shuffle_seed is not None:
        request["shuffle"] = shuffle_seed
    if language_filter is not None:
        request["language_filter"] = language_filter.facts()
    return request


def _describe_files(files: Sequence[Pair], counts: dict) -> list[dict]:
    return [
        {
            "source": source and str(source),
            "target": str(target),
            "lines": counts[target.path].lines,
            "digests": [counts[file.path].digest for file in (source, target) if file],
        }
        for source, target in files
    ]


def _write_vocabulary(output, files, counts, config, models: SentencePieceModels | None) -> None:
    """Writes the given models, or trains models if None is given, unless the files exist."""
    names = [name for name, file in zip(SPM_NAMES, files[0], strict=True) if file]
    if all((output / name).exists() for name in names):
        return
    models = models or train_on_sample(files, counts, config)
    for name, model in zip(SPM_NAMES, models, strict=True):
        if model is None:
            (output / name).unlink(missing_ok=True)
            continue
        with replacing_own(output / name) as path:
            path.write_bytes(model)


def _statistics(shards: Sequence[Shard], *, has_filter: bool) -> dict[str, Any]:
    """Returns counts of lines and dropped pairs of all shards, with examples of dropped ones."""
    faults = dict.fromkeys((*FAULTS, OTHER_LANGUAGE) if has_filter else FAULTS, 0)
    examples: dict[str, list[str]] = {}
    pairs = 0
    for shard in shards:
        metadata = read_metadata(shard)
        pairs += len(metadata.digests)
        for kind, count in metadata.faults.items():
            faults[kind] += count
            examples[kind] = [*examples.get(kind, []), *metadata.examples[kind]][:3]
    lines = sum(shard.num_lines for shard in shards)
    if pairs == 0:
        reasons = ", ".join(f"{count} are {kind}" for kind, count in faults.items() if count)
        raise InputError(f"no pair is left of {lines}: {reasons}")
    return {"lines": lines, "faults": faults, "examples": examples, "duplicates": 0, "kept": pairs}


def _write_description(output, request, models, statistics, shards) -> dict[str, Any]:
    described = [read_json(shard.description_path, MAX_BYTES) for shard in shards]
    tokenized, kept = statistics["kept"], sum(shard["pairs"] for shard in described)
    statistics |= {"duplicates": tokenized - kept, "kept": kept}
    for side in ("source", "target"):
        statistics[f"{side}_tokens"] = sum(shard[f"{side}_tokens"] for shard in described)
    description = request | {
        "tokenizers": digests_of(models),
        "statistics": statistics,
        "shards": described,
    }
    with replacing_own(output / DESCRIPTION_NAME) as path:
        write_json(path, description, indent=1)
    return description
