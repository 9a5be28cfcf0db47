"""Back-translation: sources for target text, by a model of the reverse direction.

Sennrich et al., 2016. Sampled sources help more than the best ones where there is much text
(Edunov et al., 2018); a tag at the start tells the model which sources are synthetic (Caswell et
al., 2019).
"""

import dataclasses
import pathlib
from collections.abc import Iterator
from typing import Any

from export.lines.line_results import ProcessLines, write_results
from export.synthesis.synthetic_folder import INCOMPLETE, begun, check_part, write_pairs
from export.synthesis.teacher import Teacher
from tf_transformer.predictors.answers import answer
from tf_transformer.text.text_file import TextFile

_PART_NAME = "back.source"


@dataclasses.dataclass(frozen=True)
class Sampling:
    """How sources are sampled, see the options of the task `sample`.

    Args:
        seed: seed of all samples; each line draws from it and its number.
        temperature: divisor of the logits.
        top_k: number of most probable tokens to draw from; 0 means all.
    """

    seed: int
    temperature: float = 1.0
    top_k: int = 0


@dataclasses.dataclass(frozen=True)
class BackTranslation:
    """What is translated back, and how.

    Args:
        teacher: the model from the target to the source.
        text: text of the target language.
        search: the options of the beam search.
        sampling: how to sample instead of searching, or None.
        tag: put before each source, with a space; "" for none.
        dtype: see `load_for_decoding`.
    """

    teacher: Teacher
    text: TextFile
    search: dict[str, Any]
    sampling: Sampling | None = None
    tag: str = "<bt>"
    dtype: str = "float32"

    def request(self, text_digest: str) -> dict[str, Any]:
        """Returns what the result depends on, as JSON values."""
        how = dataclasses.asdict(self.sampling) if self.sampling else self.search
        return {
            **self.teacher.model,
            "text_digest_blake2b": text_digest,
            "tag": self.tag,
            "dtype": self.dtype,
            **({"languages": self.teacher.tags} if self.teacher.tags else {}),
            **how,
        }


def back_translate(
    back_translation: BackTranslation, folder: pathlib.Path, text_digest: str
) -> dict[str, int]:
    """Writes pairs of synthetic sources and the text, or resumes an interrupted call.

    Args:
        back_translation: what to translate.
        folder: the folder to write.
        text_digest: digest of the text.

    Returns:
        The number of pairs that were written, and of those with a blank side, or none because a
        line is longer than the model's limit.

    Raises:
        InputError: the folder belongs to another back-translation, a line is invalid or lacks the
            tags that the model needs, or the file of sources is not complete.
        OSError: a file cannot be written.
    """
    request = back_translation.request(text_digest)
    text, counts = back_translation.text, {INCOMPLETE: 0}
    with begun(folder, request):
        part = folder / _PART_NAME
        if not part.exists():
            write_results(text, part, lambda: _load(back_translation), request, "back-translating")
        check_part(part, text)

        def pairs() -> Iterator[tuple[str, str]]:
            for source, target in zip(TextFile(part).lines(), text.lines(), strict=True):
                if source.strip() and target.strip():
                    yield f"{back_translation.tag} {source}".lstrip(" "), target
                else:
                    counts[INCOMPLETE] += 1

        return {"written": write_pairs(folder, pairs())} | counts


def _load(back_translation: BackTranslation) -> ProcessLines:
    teacher, sampling = back_translation.teacher, back_translation.sampling
    predictor = teacher.load()

    def translate(lines, numbers):
        inputs: dict[str, list] = {"text": teacher.sources(lines, numbers, back_translation.text)}
        task, options, needed_by = "translate", teacher.options, ""
        if sampling is not None:
            task, needed_by = "sample", "--sample"
            options = {"temperature": sampling.temperature, "top_k": sampling.top_k}
            # Equal lines draw differently, and a resumed run draws the same.
            inputs["seed"] = [(sampling.seed << 40) + number for number in numbers]
        found: list[str] = []
        for batch in answer(predictor, task, inputs, options, numbers, needed_by=needed_by):
            rows = zip(batch["translation"], batch["truncated"], strict=True)
            found += ["" if truncated else text for text, truncated in rows]
        return found

    return translate
