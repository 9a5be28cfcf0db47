"""Distillation: a training text whose targets, or sources, are those of teachers.

A student that is trained on its teacher's translations learns more than from the references (Kim
and Rush, 2016). With several teachers, of both directions, beside the original pairs, this is data
diversification (Nguyen et al., 2020).
"""

import collections
import dataclasses
import pathlib
from collections.abc import Callable, Iterator
from typing import Any

from export.lines.line_results import ProcessLines, write_results
from export.lines.line_tasks import N_BEST, LineTask, best, n_best, text_of
from export.synthesis.synthetic_folder import INCOMPLETE, begun, check_part, write_pairs
from export.synthesis.teacher import Teacher
from tf_transformer.text.text_file import TextFile


@dataclasses.dataclass(frozen=True)
class Distillation:
    """What is distilled, and how.

    Args:
        teachers: the teachers.
        source: the source side of the corpus.
        target: the target side of the corpus.
        search: the options of the search, such as `beam_size`.
        keep: "best" keeps the translation with the best score; "bleu" and "chrf" keep, of as many
            translations as the beam is wide, the one most similar to the reference.
        tokenizer: sacreBLEU's name of the tokenizer, for "bleu".
        has_originals: whether the original pairs are part of the result.
        dtype: see `load_for_decoding`.
    """

    teachers: tuple[Teacher, ...]
    source: TextFile
    target: TextFile
    search: dict[str, Any]
    keep: str = "best"
    tokenizer: str = "13a"
    has_originals: bool = True
    dtype: str = "float32"

    def request(self, corpus_digest: str) -> dict[str, Any]:
        """Returns what the result depends on, as JSON values."""
        return {
            "teachers": [teacher.facts() for teacher in self.teachers],
            "corpus_digest_blake2b": corpus_digest,
            "keep": self.keep,
            **({"tokenizer": self.tokenizer} if self.keep == "bleu" else {}),
            "originals": self.has_originals,
            "dtype": self.dtype,
            **self.search,
        }


def distill(distillation: Distillation, folder: pathlib.Path, corpus_digest: str) -> dict[str, int]:
    """Writes the corpus of a distillation, or resumes an interrupted call.

    The folder holds a file of translations for each teacher. When these are complete, the pairs are
    written: for each line of the corpus the original pair, if wanted, and that of each teacher,
    without pairs that are blank on a side and without equal pairs of the same line. What is longer
    than a teacher's limit has no translation.

    Args:
        distillation: what to distill.
        folder: the folder to write.
        corpus_digest: digest of the corpus.

    Returns:
        The number of pairs that were written, and of those that were left out, by reason.

    Raises:
        InputError: the folder belongs to another distillation, a line is invalid or lacks the
            tags that a teacher needs, or a file of translations is not complete.
        OSError: a file cannot be written.
    """
    request = distillation.request(corpus_digest)
    with begun(folder, request):
        paths = []
        for number, teacher in enumerate(distillation.teachers, 1):
            side, other = distillation.source, distillation.target
            if teacher.is_reverse:
                side, other = other, side
            path = folder / f"teacher-{number}.{'source' if teacher.is_reverse else 'target'}"
            load = _loader(distillation, teacher, side, other)
            own = request | {"teacher": number}
            if not path.exists():
                write_results(side, path, load, own, f"teacher {number}")
            check_part(path, side)
            paths.append(path)
        counts: collections.Counter[str] = collections.Counter({"duplicate": 0, INCOMPLETE: 0})
        counts["written"] = write_pairs(folder, _pairs(distillation, paths, counts))
        return dict(counts)


def _loader(
    distillation: Distillation, teacher: Teacher, sources: TextFile, references: TextFile
) -> Callable[[], ProcessLines]:
    """Returns what loads a teacher, and then translates lines and chooses a translation of each."""

    def load():
        choose = _chooser(distillation.keep, distillation.tokenizer)
        task = LineTask("translate", text_of, best)
        if choose:
            number, needed_by = distillation.search["beam_size"], f"--keep {distillation.keep}"
            results = n_best(number, "--beam-size")
            task = LineTask("nbest", text_of, results, N_BEST, needed_by=needed_by)
        translate_lines = task.translate(teacher.load(), teacher.options)
        reference_lines = enumerate(references.lines(), 1)

        def translate(lines, numbers):
            tagged = teacher.sources(lines, numbers, sources)
            found = [list(translations) for translations in translate_lines(tagged, numbers)]
            texts = [translations[0][0] for translations in found]
            if choose:
                pairs = zip(found, _lines_at(reference_lines, numbers), strict=True)
                texts = [choose([x[0] for x in those], reference) for those, reference in pairs]
            is_whole = [not translations[0][2] for translations in found]
            return [text if whole else "" for text, whole in zip(texts, is_whole, strict=True)]

        return translate

    return load


def _lines_at(lines: Iterator[tuple[int, str]], numbers: list[int]) -> Iterator[str]:
    """Yields the lines with these numbers, in ascending order, of numbered lines."""
    for wanted in numbers:
        yield next(line for number, line in lines if number == wanted)


def _chooser(keep: str, tokenizer: str) -> Callable[[list[str], str], str] | None:
    """Returns what chooses the translation most similar to a reference, or None for the best."""
    if keep == "best":
        return None
    from sacrebleu.metrics import BLEU, CHRF

    metric = BLEU(effective_order=True, tokenize=tokenizer) if keep == "bleu" else CHRF()

    def choose(translations, reference):
        return max(translations, key=lambda text: metric.sentence_score(text, [reference]).score)

    return choose


def _pairs(
    distillation: Distillation, paths: list[pathlib.Path], counts: dict[str, int]
) -> Iterator[tuple[str, str]]:
    """Yields the pairs of each line, and counts those that are left out."""
    translations = [TextFile(path).lines() for path in paths]
    corpus = [distillation.source.lines(), distillation.target.lines()]
    for source, target, *others in zip(*corpus, *translations, strict=True):
        pairs = [(source, target)] if distillation.has_originals else []
        for teacher, other in zip(distillation.teachers, others, strict=True):
            pairs.append((other, target) if teacher.is_reverse else (source, other))
        seen = set()
        for pair in pairs:
            if not all(text.strip() for text in pair):
                counts[INCOMPLETE] += 1
            elif pair in seen:
                counts["duplicate"] += 1
            else:
                seen.add(pair)
                yield pair
