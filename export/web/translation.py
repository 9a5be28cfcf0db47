"""Translates the sentences of a request, and checks what a server sends."""

import math
from collections.abc import Iterator
from typing import Any

from export.web.alignment import parse_alignment
from export.web.confidence import parse_confidence
from export.web.offers import Offers, used_outputs
from export.web.translation_request import TranslationRequest, tasks_of
from tf_transformer.documents.sentence_splitter import space_between
from tf_transformer.predictors.answers import answer
from tf_transformer.predictors.predictor import Predictor
from tf_transformer.tasks.nbest import NO_SCORE


def translate(
    predictor: Predictor, offered: Offers, request: TranslationRequest
) -> list[dict[str, Any] | None]:
    """Translates the lines of a request.

    Args:
        predictor: what computes the tasks.
        offered: what the model can do.
        request: a valid request.

    Returns:
        For each line None if it is blank, or `best`, a list of `text`, `score` and, for several
        translations, `num_tokens`, best first; `truncated`, whether the source exceeded the model's
        limit; and, if requested, `alignment` and `confidence`, see `parse_alignment` and
        `parse_confidence`. A line whose sentences are translated on their own has one `best`, with
        the mean of their scores, and all this for each of its `sentences`, with its `source`.

    Raises:
        InputError: the server refuses the request, or its model has changed.
        ConnectionError: the server is unavailable.
        TimeoutError: the server did not respond in time.
        OSError: the request failed in another way, or the response is invalid.
    """
    tasks = tasks_of(request, offered)
    lines = request.lines
    if tasks == ["document"]:
        lines = [["".join(line)] if line else [] for line in lines]
    texts = [request.tags + sentence.strip() for line in lines for sentence in line]
    outputs = {task: _predict(predictor, task, texts, request.options) for task in tasks}
    results = iter([_result(outputs, row, request) for row in range(len(texts))])
    return [_join(line, [next(results) for _ in line]) for line in lines]


def _predict(predictor, task, texts, options) -> dict[str, list]:
    """Returns the outputs of a task for all texts."""
    columns: dict[str, list] = {name: [] for name in used_outputs(task)}
    for batch in answer(predictor, task, {"text": texts}, options, outputs=used_outputs(task)):
        for name, column in columns.items():
            column += batch[name]
    return columns


def _join(line: list[str], results: list[dict[str, Any]]) -> dict[str, Any] | None:
    """Joins the results of the sentences of a line."""
    if len(results) < 2:
        return results[0] if results else None
    text = ""
    for number, (sentence, result) in enumerate(zip(line, results, strict=True)):
        text += result["best"][0]["text"]
        if number < len(line) - 1:
            text += space_between(text, sentence[len(sentence.rstrip()) :])
    score = sum(result["best"][0]["score"] for result in results) / len(results)
    return {
        "best": [{"text": text, "score": score}],
        "truncated": any(result["truncated"] for result in results),
        "sentences": [
            {"source": sentence.strip()} | result
            for sentence, result in zip(line, results, strict=True)
        ],
    }


def _result(outputs, row, request):
    first = next(iter(outputs.values()))
    best = list(_best(outputs, row, request.num_best))
    if not best:
        raise OSError("expected at least one translation per sentence. Received: none")
    result = {"best": best, "truncated": first["truncated"][row]}
    if request.alignment:
        names = ("source_pieces", "target_pieces", "hard_alignment", "soft_alignment")
        result["alignment"] = parse_alignment(*(outputs["align"][name][row] for name in names))
    if request.confidence:
        found = outputs["confidence"]
        result["confidence"] = parse_confidence(
            found["words"][row], found["word_confidences"][row], found["confidence"][row]
        )
    return result


def _best(outputs, row, num_best) -> Iterator[dict[str, Any]]:
    if "nbest" not in outputs:
        found = next(iter(outputs.values()))
        yield {"text": found["translation"][row], "score": _checked(found["score"][row])}
        return
    names = ("translations", "scores", "num_tokens")
    columns = [outputs["nbest"][name][row][:num_best] for name in names]
    for text, score, num_tokens in zip(*columns, strict=True):
        if _checked(score) > NO_SCORE:
            yield {"text": text, "score": score, "num_tokens": num_tokens}


def _checked(score):
    if not math.isfinite(score):
        raise OSError(f"expected finite scores. Received: {score}")
    return score
