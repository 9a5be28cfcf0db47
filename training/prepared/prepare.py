"""Preparing large corpora: text files to sharded TFRecords of token ids, in parallel processes.

    prepared.json             description of the folder; written last
    source.spm, target.spm    SentencePiece models; a language model has no source
    shard-00000.tfrecord      pairs, see `training.prepared.records`, in the order of the text
    work-of-prepare/          intermediate files; removed at the end

Every file is written atomically, and its content depends neither on time nor on the number of
processes. A preparation that was killed can therefore be resumed, and gives the same bytes as an
uninterrupted one.
"""

import contextlib
import dataclasses
import io
import itertools
import os
import pathlib
import shutil
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import tqdm

from tf_transformer.errors import InputError
from tf_transformer.storage.files import locked, remove_leftovers
from tf_transformer.storage.json_files import read_json, write_json
from tf_transformer.storage.own_files import make_own_folder, replacing_own
from tf_transformer.text.reading import open_text
from tf_transformer.text.text_file import TextFile
from training.config import TrainingConfig
from training.data.corpus import file_state
from training.prepared.duplicates import mark_first_occurrences
from training.prepared.existing_vocabulary import vocabulary_for
from training.prepared.file_counts import LineCounts, count_files
from training.prepared.prepared_folder import (
    DESCRIPTION_NAME,
    FORMAT_VERSION,
    MAX_BYTES,
    SPM_NAMES,
    WORK_NAME,
    SentencePieceModels,
    digest_of,
    read_description,
    read_models,
)
from training.prepared.processes import ProcessPool, progress_bar
from training.prepared.sampled_vocabulary import train_on_sample
from training.prepared.shards import (
    FAULTS,
    Shard,
    finish_shard,
    load_tokenizers,
    make_shard,
    read_digests,
    read_metadata,
)

# Source and target; a language model has no source.
Pair = tuple[TextFile | None, TextFile]


def prepare(
    config: TrainingConfig,
    *,
    files: Sequence[Pair],
    output: pathlib.Path,
    vocabulary: pathlib.Path | None = None,
    num_processes: int = 1,
    shard_pairs: int = 50_000,
    keep_duplicates: bool = False,
) -> dict[str, Any]:
    """Prepares a corpus, or resumes an interrupted call with the same arguments.

    Args:
        config: settings, of which only `vocabulary` and `data.max_length` are used.
        files: pairs of source and target, whose lines are translations of each other; all sources
            are None for a language model.
        output: the folder to write.
        vocabulary: path of an existing vocabulary, see `read_vocabulary`; None trains one.
        num_processes: number of parallel processes.
        shard_pairs: number of lines per shard.
        keep_duplicates: whether to keep pairs that equal an earlier one.

    Returns:
        The content of `prepared.json`.

    Raises:
        InputError: a file is invalid, or `output` holds other files or another preparation.
    """
    settings, models = config.vocabulary, None
    if vocabulary:
        settings, models = vocabulary_for(vocabulary, has_source=files[0][0] is not None)
    settings = dataclasses.replace(settings, source_vectors=None, target_vectors=None)
    request = {
        "format_version": FORMAT_VERSION,
        "vocabulary": dataclasses.asdict(settings),
        "given_vocabulary": models and _digests(models),
        "max_length": config.data.max_length,
        "shard_pairs": shard_pairs,
        "keep_duplicates": keep_duplicates,
    }
    with _locked_output(output) as work:
        counts = count_files(files, work, shard_pairs, num_processes)
        request["files"] = _describe_files(files, counts)
        finished = _start_or_resume(output, work, request)
        if finished is not None:
            return finished
        _write_vocabulary(output, files, counts, settings, models)
        models = read_models(output)
        shards = _plan_shards(files, counts, shard_pairs, output)
        arguments = (*models, settings.languages)
        with ProcessPool(num_processes, load_tokenizers, arguments) as pool:
            _make_shards(pool, shards, counts, config.data.max_length)
            statistics = _statistics(shards)
            _mark_duplicates(shards, work, statistics, keep_duplicates)
            _finish_shards(pool, shards, work)
        return _write_description(output, request, models, statistics, shards)


def _digests(models: SentencePieceModels) -> list[str | None]:
    return [None if model is None else digest_of(model) for model in models]


@contextlib.contextmanager
def _locked_output(output: pathlib.Path) -> Iterator[pathlib.Path]:
    """Makes and locks the output folder; yields the folder of intermediate files in it."""
    work = output / WORK_NAME
    if output.exists() and not output.is_dir():
        raise InputError(f"{output}: expected a folder")
    is_ours = work.is_dir() or (output / DESCRIPTION_NAME).exists()
    if output.exists() and any(output.iterdir()) and not is_ours:
        raise InputError(f"{output}: holds other files; give a new or empty folder")
    output.mkdir(parents=True, exist_ok=True)
    with locked(output, "preparing it"):
        try:
            make_own_folder(work)
            remove_leftovers(output)
            remove_leftovers(work)
            yield work
        finally:
            if (output / DESCRIPTION_NAME).exists():
                shutil.rmtree(work, ignore_errors=True)
                remove_leftovers(output)  # of processes that ended only after their parent


def _start_or_resume(output: pathlib.Path, work: pathlib.Path, request: dict) -> dict | None:
    """Records the request of a new preparation, or compares it with the recorded one.

    Returns:
        The content of `prepared.json` if the preparation is finished, else None.
    """
    path = output / DESCRIPTION_NAME
    recorded = path if path.exists() else work / "request.json"
    # Until the vocabulary is written, no file depends on the request and it may change.
    if recorded != path and not (output / SPM_NAMES[1]).exists():
        with replacing_own(recorded) as temporary:
            write_json(temporary, request)
    try:
        former = read_json(recorded, MAX_BYTES)
        before = {name: former[name] for name in request}
        difference = _difference(before, request)
    except (OSError, ValueError, LookupError, TypeError) as error:
        raise InputError(
            f"{recorded}: damaged; remove {output} to start again ({error!r})"
        ) from error
    if difference:
        raise InputError(
            f"{output} was begun with {difference}; give the same files and settings, or another "
            "--output"
        )
    return read_description(output) if recorded == path else None


def _difference(before: dict, now: dict) -> str | None:
    """Describes the first difference of two requests; None if they are equal."""
    for name, value in now.items():
        label = name.replace("_", " ")
        if before[name] == value:
            continue
        if isinstance(value, int):
            return f"{label} {before[name]}, not {value}"
        if name == "vocabulary":
            settings = (key for key in value if before[name][key] != value[key])
            return ", ".join(f"{name}.{k} {before[name][k]}, not {value[k]}" for k in settings)
        return f"other {label}"
    return None


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


def _plan_shards(files, counts, shard_pairs: int, output: pathlib.Path) -> list[Shard]:
    """Divides all files into shards, in the order of the files."""
    shards: list[Shard] = []
    for source, target in files:
        lines = counts[target.path].lines
        ranges = [
            list(itertools.pairwise(counts[file.path].offsets))
            for file in (source or target, target)
        ]
        for first, *spans in zip(range(0, lines, shard_pairs), *ranges, strict=True):
            size = min(shard_pairs, lines - first)
            shards.append(Shard(len(shards), source, target, first, size, tuple(spans), output))
    return shards


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


def _make_shards(
    pool: ProcessPool, shards: Sequence[Shard], counts: LineCounts, max_length: int
) -> None:
    missing = [shard for shard in shards if not shard.metadata_path.exists()]
    total = sum(shard.num_lines for shard in shards)
    done = total - sum(shard.num_lines for shard in missing)
    tasks = (
        (make_shard, shard, sides, max_length, shard.num_lines)
        for shard, sides in _read_sides(missing, counts)
    )
    with progress_bar("tokenizing", total, "pairs", done) as progress:
        for _ in pool.run(tasks, progress):
            pass


def _read_sides(
    shards: Sequence[Shard], counts: LineCounts
) -> Iterator[tuple[Shard, list[bytes | None]]]:
    """Yields each shard with the bytes of its lines; reads every file sequentially."""
    for group in _group_by_files(shards):
        files = (group[0].source, group[0].target)
        with contextlib.ExitStack() as stack:
            opened = [
                None if file is None else stack.enter_context(open_text(file.path))
                for file in files
            ]
            positions = [0, 0]
            for shard in group:
                sides = []
                for side, (text, (begin, end)) in enumerate(zip(opened, shard.bytes, strict=True)):
                    if text is not None:
                        _skip(text, begin - positions[side])
                    sides.append(None if text is None else text.read(end - begin))
                    positions[side] = end
                for file in files:
                    if file and file_state(file.path) != counts[file.path].state:
                        raise InputError(
                            f"{file.path} has changed while it was read; restore it and run the "
                            "same command again to resume"
                        )
                yield shard, sides


def _group_by_files(shards: Sequence[Shard]) -> Iterator[list[Shard]]:
    """Groups consecutive shards of one pair of files; the same pair may be listed twice."""
    group: list[Shard] = []
    for shard in shards:
        if group and (
            (shard.source, shard.target) != (group[-1].source, group[-1].target)
            or shard.first_line <= group[-1].first_line
        ):
            yield group
            group = []
        group.append(shard)
    if group:
        yield group


def _skip(file: io.BufferedIOBase, size: int) -> None:
    if file.seekable():
        file.seek(size, os.SEEK_CUR)
        return
    while size > 0 and (piece := file.read(min(size, 1 << 20))):
        size -= len(piece)


def _statistics(shards: Sequence[Shard]) -> dict[str, Any]:
    """Returns counts of lines and dropped pairs of all shards, with examples of dropped ones."""
    faults = dict.fromkeys(FAULTS, 0)
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


def _mark_duplicates(shards, work, statistics, keep_duplicates) -> None:
    """Writes which pairs are kept to `keep.npy`, and adds the number of duplicates."""
    path = work / "keep.npy"
    num_pairs = statistics["kept"]
    if not path.exists():
        if keep_duplicates:
            with replacing_own(path) as temporary, open(temporary, "wb") as file:
                np.save(file, np.ones(num_pairs, bool))
        else:
            parts = [lambda shard=shard: read_digests(shard) for shard in shards]
            mark_first_occurrences(
                parts,
                path,
                num_pairs,
                lambda passes: tqdm.tqdm(passes, "finding duplicates", leave=False, disable=None),
            )
    statistics["kept"] = int(np.count_nonzero(np.load(path, mmap_mode="r")))
    statistics["duplicates"] = num_pairs - statistics["kept"]


def _finish_shards(pool: ProcessPool, shards: Sequence[Shard], work: pathlib.Path) -> None:
    keep = np.load(work / "keep.npy", mmap_mode="r")

    def tasks():
        start = 0
        for shard in shards:
            end = start + len(read_digests(shard))
            if not shard.description_path.exists():
                yield finish_shard, shard, np.array(keep[start:end]), 1
            start = end

    done = sum(shard.description_path.exists() for shard in shards)
    with progress_bar("finishing", len(shards), "shards", done) as progress:
        for _ in pool.run(tasks(), progress):
            pass


def _write_description(output, request, models, statistics, shards) -> dict[str, Any]:
    described = [read_json(shard.description_path, MAX_BYTES) for shard in shards]
    for side in ("source", "target"):
        statistics[f"{side}_tokens"] = sum(shard[f"{side}_tokens"] for shard in described)
    description = request | {
        "tokenizers": _digests(models),
        "statistics": statistics,
        "shards": described,
    }
    with replacing_own(output / DESCRIPTION_NAME) as path:
        write_json(path, description, indent=1)
    return description
