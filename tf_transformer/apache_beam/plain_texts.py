"""Counting and decompressing text files by pipelines, so that workers can read any part of them."""

import dataclasses
import pathlib
import shutil
from collections.abc import Mapping, Sequence
from functools import partial

import apache_beam
from apache_beam.options.pipeline_options import PipelineOptions

from tf_transformer.apache_beam.pipelines import failures_are_kept, write_files
from tf_transformer.errors import InputError
from tf_transformer.storage.json_files import read_json, write_json
from tf_transformer.storage.own_files import replacing_own
from tf_transformer.text.file_state import file_state
from tf_transformer.text.line_count import LineCount, count_lines
from tf_transformer.text.reading import COMPRESSED, open_text

# Size limit of the count of a file: more than a million offsets.
_MAX_BYTES = 2**28


def count_files(
    options: PipelineOptions, work: pathlib.Path, paths: Sequence[pathlib.Path], every: int
) -> list[LineCount]:
    """Counts the lines of files.

    Args:
        options: options of Apache Beam.
        work: folder of intermediate files.
        paths: the files, which may be compressed.
        every: distance in lines of the recorded offsets.

    Returns:
        The result of `count_lines` for each file.

    Raises:
        InputError: a file is invalid.
    """
    results = [work / f"count-{index:05}.json" for index in range(len(paths))]
    for path in results:
        path.unlink(missing_ok=True)
    items = list(zip(paths, results, strict=True))
    transform = apache_beam.Map(partial(_count, every=every))
    write_files("counting lines", options, items, [transform], results)
    return [LineCount(**read_json(path, _MAX_BYTES)) for path in results]


def _count(item: tuple[pathlib.Path, pathlib.Path], every: int) -> None:
    path, result = item
    with failures_are_kept(result.parent), replacing_own(result) as temporary:
        write_json(temporary, dataclasses.asdict(count_lines(path, every)), indent=None)


def decompress_files(
    options: PipelineOptions, work: pathlib.Path, paths: Sequence[pathlib.Path]
) -> dict[pathlib.Path, pathlib.Path]:
    """Decompresses those of the files that are compressed, since the others need no copy.

    Args:
        options: options of Apache Beam.
        work: folder of intermediate files.
        paths: the files, always in the same order.

    Returns:
        For each file, where its text can be read at any offset.

    Raises:
        InputError: a file is invalid.
    """
    plain = {
        path: work / f"text-{index:05}" if path.suffix in COMPRESSED else path
        for index, path in enumerate(paths)
    }
    missing = [item for item in plain.items() if not item[1].exists()]
    if missing:
        results = [path for _, path in missing]
        write_files("decompressing", options, missing, [apache_beam.Map(_decompress)], results)
    return plain


def _decompress(item: tuple[pathlib.Path, pathlib.Path]) -> None:
    path, result = item
    with (
        failures_are_kept(result.parent),
        replacing_own(result) as temporary,
        open_text(path) as source,
        open(temporary, "wb") as target,
    ):
        shutil.copyfileobj(source, target, 1 << 20)


@dataclasses.dataclass(frozen=True)
class PlainTexts:
    """Reads parts of text files, and checks that the files have not changed.

    Args:
        plain: the result of `decompress_files`.
        states: `file_state` of each file when its lines were counted.
    """

    plain: Mapping[pathlib.Path, pathlib.Path]
    states: Mapping[pathlib.Path, list[int] | None]

    def read(self, path: pathlib.Path, begin: int, end: int) -> bytes:
        """Reads the text of a file between two offsets.

        Raises:
            InputError: the file has changed since its lines were counted.
        """
        with open(self.plain[path], "rb") as file:
            file.seek(begin)
            content = file.read(end - begin)
        if file_state(path) != self.states[path]:
            raise InputError(
                f"{path} has changed while it was read; restore it and run the same command again "
                "to resume"
            )
        return content
