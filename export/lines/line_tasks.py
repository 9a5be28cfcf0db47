"""How a task translates lines: its inputs for some lines, and what its outputs are in a file."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from export.lines.line_translations import NBest, Translate
from tf_transformer.errors import InputError
from tf_transformer.predictors.answers import answer
from tf_transformer.predictors.predictor import Predictor
from tf_transformer.tasks.nbest import NO_SCORE
from tf_transformer.text.lines import join_lines

TRANSLATION = ("translation", "score", "truncated")
N_BEST = ("translations", "scores", "truncated")
CONFIDENCE = ("translation", "score", "words", "word_confidences", "confidence", "truncated")


class LineTask(NamedTuple):
    """A task for lines.

    Attributes:
        task: its name.
        inputs: returns the inputs for some lines.
        results: yields the translations of each line from the outputs of some lines.
        outputs: the outputs that it uses.
        flags: flags of the task by name.
        needed_by: the options that need the task, for error messages.
    """

    task: str
    inputs: Callable[[list[bytes]], dict[str, list]]
    results: Callable[[Mapping[str, list]], Iterable[NBest]]
    outputs: tuple[str, ...] = TRANSLATION
    flags: Mapping[str, bool] = {}
    needed_by: str = ""

    def translate(self, predictor: Predictor, options: Mapping[str, Any]) -> Translate:
        """Returns what translates lines.

        Args:
            predictor: what computes the task.
            options: search options by name.
        """

        def translate(lines: list[bytes], numbers: list[int]) -> Iterator[NBest]:
            batches = answer(
                predictor,
                self.task,
                self.inputs(lines),
                {**options, **self.flags},
                numbers,
                outputs=self.outputs,
                needed_by=self.needed_by,
            )
            for batch in batches:
                yield from self.results(batch)

        return translate


def text_of(lines: list[bytes]) -> dict[str, list]:
    """Returns the inputs of a task whose only input is text."""
    return {"text": lines}


def best(outputs: Mapping[str, list]) -> Iterator[NBest]:
    """Yields the translation of each line."""
    for row in zip(*(outputs[name] for name in TRANSLATION), strict=True):
        yield [row]


def n_best(
    number: int, option: str = "--n-best"
) -> Callable[[Mapping[str, list]], Iterator[NBest]]:
    """Returns what yields the best translations of each line, as many as `number`.

    They may be fewer if the search found no more.

    Args:
        number: their number.
        option: the option that names it, for error messages.
    """

    def results(outputs):
        columns = (outputs[name] for name in N_BEST)
        for texts, scores, truncated in zip(*columns, strict=True):
            if len(texts) < number:
                raise InputError(
                    f"{option} {number}: expected at most {len(texts)}, the beam size of the "
                    "exported model"
                )
            found = zip(texts[:number], scores, strict=False)
            yield [(text, score, truncated) for text, score in found if score > NO_SCORE]

    return results


def with_confidences(outputs: Mapping[str, list]) -> Iterator[NBest]:
    """Yields the translation of each line, its confidence, its words and their confidences."""
    columns = (outputs[name] for name in CONFIDENCE)
    for text, score, words, of_words, confidence, truncated in zip(*columns, strict=True):
        fields = (text, f"{confidence:.3f}", words, of_words)
        yield [("\t".join(map(_field, fields)), score, truncated)]


def _field(text: str) -> str:
    """Returns a text as a field of a line."""
    return join_lines(text).replace("\t", " ")
