"""Translates the sentences of a request with a server, and checks what the server sends."""

import math
from collections.abc import Iterator, Mapping
from typing import Any

from export.client import Client
from export.web.alignment import parse_alignment
from export.web.confidence import parse_confidence
from export.web.offered import Offered
from export.web.translation_request import TranslationRequest, tasks_of

# Entries of the n best that the search did not fill have the score -1e9.
_LEAST_SCORE = -1e8


def translate(
    client: Client, offered: Offered, request: TranslationRequest
) -> list[dict[str, Any] | None]:
    """Translates the lines of a request.

    Args:
        client: the client of the server.
        offered: what the served model can do.
        request: a valid request.

    Returns:
        For each line None if it is blank, or `best`, a list of `text`, `score` and, for several
        translations, `num_tokens`, best first; `truncated`, whether the source exceeded the model's
        limit; and, if requested, `alignment` and `confidence`, see `parse_alignment` and
        `parse_confidence`.

    Raises:
        InputError: the server refuses the request, or its model has changed.
        ConnectionError: the server is unavailable.
        TimeoutError: the server did not respond in time.
        OSError: the request failed in another way, or the response is invalid.
    """
    sentences = request.translated
    outputs: dict[str, Mapping[str, list]] = {}
    for task in tasks_of(request, offered):
        if request.options:
            signature = offered.with_options[task]
        else:
            signature = offered.plain.get(task) or offered.with_options[task]
        inputs: dict[str, list] = {"text": sentences}
        if signature == offered.with_options.get(task):
            for option in offered.options:
                value = request.options.get(option.name, option.unset)
                inputs[option.name] = [value] * len(sentences)
        outputs[task] = client.predict(inputs, signature)
    results = iter([_result(outputs, row, request) for row in range(len(sentences))])
    return [next(results) if line.strip() else None for line in request.lines]


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
        if _checked(score) > _LEAST_SCORE:
            yield {"text": text, "score": score, "num_tokens": num_tokens}


def _checked(score):
    if not math.isfinite(score):
        raise OSError(f"expected finite scores. Received: {score}")
    return score
