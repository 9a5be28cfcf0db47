"""A stand-in for TF Serving with the signatures of an export, which translates into capitals."""

import re

from tests.serving_stub import Behaviour

BEAM_SIZE = 4
OPTIONS = {
    "beam_size": ("DT_INT32", ()),
    "length_penalty": ("DT_FLOAT", ()),
    "max_length": ("DT_INT32", ()),
    "min_length": ("DT_INT32", ()),
    "no_repeat_ngram": ("DT_INT32", ()),
    "coverage_penalty": ("DT_FLOAT", ()),
}
UNSET = {"length_penalty": -1.0}

_TEXT = {"text": ("DT_STRING", ())}
_STRING, _FLOAT, _BOOL = (("DT_STRING", ()), ("DT_FLOAT", ()), ("DT_BOOL", ()))
_OUTPUTS = {
    "serving_default": {"translation": _STRING, "score": _FLOAT, "truncated": _BOOL},
    "document": {"translation": _STRING, "score": _FLOAT, "truncated": _BOOL},
    "nbest": {
        "translations": ("DT_STRING", (BEAM_SIZE,)),
        "scores": ("DT_FLOAT", (BEAM_SIZE,)),
        "num_tokens": ("DT_INT32", (BEAM_SIZE,)),
        "truncated": _BOOL,
    },
    "align": {
        "translation": _STRING,
        "score": _FLOAT,
        "source_pieces": _STRING,
        "target_pieces": _STRING,
        "hard_alignment": _STRING,
        "soft_alignment": _STRING,
        "truncated": _BOOL,
    },
    "confidence": {
        "translation": _STRING,
        "score": _FLOAT,
        "words": _STRING,
        "word_confidences": _STRING,
        "confidence": _FLOAT,
        "truncated": _BOOL,
    },
}


def make_behaviour(*, is_confident=False, has_documents=False, **changes) -> Behaviour:
    """Returns a server with `serving_default`, `nbest`, `align`, and these with options.

    A text is truncated after 100 bytes. The options that differ from "not given" are appended to
    the translation, as in `HELLO beam_size=2`. The pieces of the alignment are the words, the
    first two of which change places. With `is_confident`, there is also `confidence`, and with
    `has_documents` `document`, which writes a full stop after each translation.
    """
    plain = {"serving_default": _translate, "nbest": _find_best, "align": _align}
    specs: dict[str, tuple[dict, dict]] = {}
    answers = {}
    for name, answer in plain.items():
        prefix = "translate" if name == "serving_default" else name
        specs[name] = (_TEXT, _OUTPUTS[name])
        specs[f"{prefix}_options"] = (_TEXT | OPTIONS, _OUTPUTS[name])
        answers[name] = answers[f"{prefix}_options"] = answer
    if is_confident:
        specs["confidence"] = (_TEXT | OPTIONS, _OUTPUTS["confidence"])
        answers["confidence"] = _judge
    if has_documents:
        specs["document"] = (_TEXT, _OUTPUTS["document"])
        capitals = {"keep_capitals": ("DT_BOOL", ())}
        specs["document_options"] = (_TEXT | OPTIONS | capitals, _OUTPUTS["document"])
        answers["document"] = answers["document_options"] = _translate_documents
    return Behaviour(specs=specs, answers=answers, **changes)


def _suffix(row, options):
    given = {
        name: values[row] for name, values in options.items() if values[row] != UNSET.get(name, 0)
    }
    return "".join(f" {name}={value:g}" for name, value in given.items()).encode()


def _texts(text, options):
    return [source.upper()[:100] + _suffix(row, options) for row, source in enumerate(text)]


def _translate(text, **options):
    return {
        "translation": _texts(text, options),
        "score": [-0.1 * len(source) for source in text],
        "truncated": [len(source) > 100 for source in text],
    }


def _translate_documents(text, keep_capitals=None, **options):
    assert not any(keep_capitals or ())
    found = _translate(text, **options)
    return found | {"translation": [text + b"." for text in found["translation"]]}


def _find_best(text, **options):
    """The last of the four entries is empty, as after a search with a smaller beam."""
    return {
        "translations": [[best, best + b" 2", best + b" 3", b""] for best in _texts(text, options)],
        "scores": [[-0.5, -1.0, -1.5, -1e9]] * len(text),
        "num_tokens": [[3, 4, 5, 0]] * len(text),
        "truncated": [len(source) > 100 for source in text],
    }


def _align(text, **options):
    translations = _texts(text, options)
    rows = [_align_row(source, best) for source, best in zip(text, translations, strict=True)]
    names = ("source_pieces", "target_pieces", "hard_alignment", "soft_alignment")
    columns = dict(zip(names, map(list, zip(*rows, strict=True)), strict=True))
    return _translate(text, **options) | columns


def _judge(text, **options):
    """Confidences of 0.4, 0.7 and 1 in turn; characters beyond ASCII are words."""
    found = _translate(text, **options)
    words = [re.findall(r"[!-~]+|[^ -~]", best.decode()) for best in found["translation"]]
    shown = [" ".join(f"{0.4 + 0.3 * (j % 3):.3f}" for j in range(len(row))) for row in words]
    return found | {
        "words": [" ".join(row).encode() for row in words],
        "word_confidences": [numbers.encode() for numbers in shown],
        "confidence": [0.625] * len(text),
    }


def _align_row(source, translation):
    sources = [b"\xe2\x96\x81" + word for word in source.split()]
    targets = [b"\xe2\x96\x81" + word for word in translation.split()]
    aligned = [min(j, len(sources) - 1) for j in range(len(targets))]
    if len(sources) > 1 and len(targets) > 1:
        aligned[:2] = [1, 0]
    hard = " ".join(f"{i}-{j}" for j, i in enumerate(aligned))
    soft = " ".join(
        ",".join("0.8000" if k == i else "0.1000" for k in range(len(sources) + 1)) for i in aligned
    )
    return b" ".join(sources), b" ".join(targets), hard.encode(), soft.encode()
