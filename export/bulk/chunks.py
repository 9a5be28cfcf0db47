"""Translating a chunk of a file: the task of a worker."""

import dataclasses
import itertools
import json
import pathlib
from collections.abc import Callable

import apache_beam

from export.bulk import line_rows, parquet_rows
from export.bulk.model_handler import SavedModelHandler
from export.bulk.row_files import Result, RowFile, Rows
from tf_transformer.apache_beam.pipelines import failures_are_kept
from tf_transformer.apache_beam.plain_texts import PlainTexts
from tf_transformer.errors import InputError
from tf_transformer.storage.json_files import write_json
from tf_transformer.storage.own_files import replacing_own

# Rows per chunk: what is lost when a worker is killed.
ROWS_PER_CHUNK = 2048

# Adds tags to a sentence, or checks them; with file and row, for the error message.
Prepare = Callable[[bytes, str], bytes]


@dataclasses.dataclass(frozen=True)
class Chunk:
    """A range of rows of a file, and the files made from it.

    Args:
        index: index among all chunks.
        first: number of the first row, counted from 1.
        num_rows: number of rows.
        group: index of the row group of a Parquet file, else 0.
        begin: offset of the first row: in bytes of the decompressed text, or in rows of the group.
        end: offset of the end.
        work: folder of the results.
    """

    index: int
    first: int
    num_rows: int
    group: int
    begin: int
    end: int
    work: pathlib.Path

    @property
    def path(self) -> pathlib.Path:
        """Path of the translated rows, in the format of the output."""
        return self.work / f"{self.index:08}"

    @property
    def failed_path(self) -> pathlib.Path:
        """Path of the rows that failed, with their reasons, as JSON lines."""
        return self.work / f"{self.index:08}.failed"

    @property
    def report_path(self) -> pathlib.Path:
        """Path of the counts, which are written last."""
        return self.work / f"{self.index:08}.json"


def chunks_of_lines(num_lines: int, offsets: list[int], work: pathlib.Path) -> list[Chunk]:
    """Divides a text, given the offset of every `ROWS_PER_CHUNK`-th line and of the end."""
    return [
        Chunk(
            index=index,
            first=index * ROWS_PER_CHUNK + 1,
            num_rows=min(ROWS_PER_CHUNK, num_lines - index * ROWS_PER_CHUNK),
            group=0,
            begin=begin,
            end=end,
            work=work,
        )
        for index, (begin, end) in enumerate(itertools.pairwise(offsets))
    ]


def chunks_of_groups(groups: list[int], work: pathlib.Path) -> list[Chunk]:
    """Divides a Parquet file, given the number of rows of each row group."""
    found: list[Chunk] = []
    first = 1
    for group, size in enumerate(groups):
        for begin in range(0, size, ROWS_PER_CHUNK):
            end = min(begin + ROWS_PER_CHUNK, size)
            found.append(Chunk(len(found), first + begin, end - begin, group, begin, end, work))
        first += size
    return found


class TranslateChunks(apache_beam.DoFn):
    """Translates chunks and writes their results.

    Args:
        handler: translates sentences.
        source: the file that the chunks are of.
        output: the output, whose format the results have.
        texts: reads the file, unless it is Parquet.
        prepare: maps a sentence to the one to translate.
    """

    def __init__(
        self,
        handler: SavedModelHandler,
        source: RowFile,
        output: RowFile,
        texts: PlainTexts | None,
        prepare: Prepare,
    ):
        self._handler, self._source, self._output = handler, source, output
        self._texts, self._prepare = texts, prepare

    def process(self, chunk: Chunk) -> None:
        with failures_are_kept(chunk.work):
            if chunk.report_path.exists():
                return
            rows = self._read(chunk)
            if len(rows.texts) != chunk.num_rows:
                raise InputError(f"{self._source.path} has changed while it was read")
            self._check(rows, chunk)
            results = self._translate(rows, chunk)
            self._write(chunk, rows, results)

    def _read(self, chunk: Chunk) -> Rows:
        if self._texts is None:
            place = (chunk.group, chunk.begin, chunk.end, chunk.first)
            return parquet_rows.read_rows(self._source, *place)
        content = self._texts.read(self._source.path, chunk.begin, chunk.end)
        return line_rows.read_lines(content, self._source, chunk.first)

    def _check(self, rows: Rows, chunk: Chunk) -> None:
        """Prepares the sentences in place, and drops those that cannot be prepared."""
        for index, text in enumerate(rows.texts):
            if text is None or not text.strip():
                continue
            try:
                where = f"{self._source.path}:{chunk.first + index}"
                rows.texts[index] = self._prepare(text.encode(), where).decode()
            except InputError as error:
                rows.texts[index], rows.reasons[index] = None, str(error)

    def _translate(self, rows: Rows, chunk: Chunk) -> list[Result | None]:
        """Returns the result of each row; blank sentences have blank translations."""
        results: list[Result | None] = [
            Result("", 0.0, False) if text is not None and not text.strip() else None
            for text in rows.texts
        ]
        indices = [index for index, text in enumerate(rows.texts) if text and text.strip()]
        texts = [rows.texts[index] or "" for index in indices]
        model = self._handler.load_model() if texts else None
        for part in self._handler.parts(texts):
            self._translate_part([(indices[i], texts[i]) for i in part], model, rows, results)
        return results

    def _translate_part(self, part, model, rows: Rows, results) -> None:
        """Translates sentences together or, if the model refuses one, alone."""
        try:
            found = model([text for _, text in part])
        except InputError as error:
            if len(part) > 1:
                for item in part:
                    self._translate_part([item], model, rows, results)
                return
            rows.reasons[part[0][0]] = str(error)
            return
        for (index, _), result in zip(part, found, strict=True):
            results[index] = result

    def _write(self, chunk: Chunk, rows: Rows, results: list[Result | None]) -> None:
        with replacing_own(chunk.path) as path:
            if self._output.format == "parquet":
                parquet_rows.write_rows(rows, results, path)
            else:
                lines = line_rows.format_lines(rows, results, self._output)
                path.write_bytes(line_rows.compress(lines, self._output.path))
        failed = [
            json.dumps({"row": number, "reason": reason}, ensure_ascii=False) + "\n"
            for number, reason in enumerate(rows.reasons, chunk.first)
            if reason is not None
        ]
        with replacing_own(chunk.failed_path) as path:
            path.write_text("".join(failed), encoding="utf-8", errors="backslashreplace")
        report = {
            "rows": len(results),
            "failed": len(failed),
            "truncated": sum(result is not None and result.truncated for result in results),
        }
        with replacing_own(chunk.report_path) as path:
            write_json(path, report, indent=None)
