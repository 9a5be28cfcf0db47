"""What the web page can offer, found in the signatures of the served model."""

from collections.abc import Mapping
from typing import NamedTuple

from tf_transformer.decoding.search_options import SEARCH_OPTIONS, RowOption
from tf_transformer.predictors.signature import Signature, TensorSpec

# Task -> the signature with default options, if there is such a one, and the one with options.
_SIGNATURES = {
    "translate": ("serving_default", "translate_options"),
    "document": ("document", "document_options"),
    "nbest": ("nbest", "nbest_options"),
    "align": ("align", "align_options"),
    "confidence": (None, "confidence"),
}
_TRANSLATION = {
    "translation": ("DT_STRING", 1),
    "score": ("DT_FLOAT", 1),
    "truncated": ("DT_BOOL", 1),
}
# Task -> data types and ranks of the outputs that the page uses.
_OUTPUTS = {
    "translate": _TRANSLATION,
    "document": _TRANSLATION,
    "nbest": {
        "translations": ("DT_STRING", 2),
        "scores": ("DT_FLOAT", 2),
        "num_tokens": ("DT_INT32", 2),
        "truncated": ("DT_BOOL", 1),
    },
    "align": {
        "translation": ("DT_STRING", 1),
        "score": ("DT_FLOAT", 1),
        "source_pieces": ("DT_STRING", 1),
        "target_pieces": ("DT_STRING", 1),
        "hard_alignment": ("DT_STRING", 1),
        "soft_alignment": ("DT_STRING", 1),
        "truncated": ("DT_BOOL", 1),
    },
    "confidence": {
        "translation": ("DT_STRING", 1),
        "score": ("DT_FLOAT", 1),
        "words": ("DT_STRING", 1),
        "word_confidences": ("DT_STRING", 1),
        "confidence": ("DT_FLOAT", 1),
        "truncated": ("DT_BOOL", 1),
    },
}
# An input of `document_options`, which the page does not set.
KEEP_CAPITALS = "keep_capitals"
_OPTIONS = {option.name: option for option in SEARCH_OPTIONS}
_DATA_TYPES = {"int32": "DT_INT32", "float32": "DT_FLOAT"}


class Offered(NamedTuple):
    """What a served model can do for the page.

    Attributes:
        plain: tasks (`translate`, `document`, `nbest`, `align`, `confidence`) with default options,
            and their signatures.
        with_options: tasks with search options, and their signatures.
        options: the search options that all of `with_options` have.
        num_best: largest number of translations per sentence.
    """

    plain: dict[str, str]
    with_options: dict[str, str]
    options: tuple[RowOption, ...]
    num_best: int

    def has(self, task: str) -> bool:
        """Returns whether a signature for this task is exported."""
        return task in self.plain or task in self.with_options


def find_offered(signatures: Mapping[str, Signature]) -> Offered:
    """Returns what the page can offer.

    Signatures with other inputs or outputs than those of an export are ignored: the server is not
    trusted, or serves a model of another kind.

    Args:
        signatures: the model's signatures by name.
    """
    plain, with_options = {}, {}
    for task, (name, name_with_options) in _SIGNATURES.items():
        if name and name in signatures and _is_valid(signatures[name], task, set()):
            plain[task] = name
        found = signatures.get(name_with_options)
        if found and _is_valid(found, task, _OPTIONS.keys() & found.inputs.keys()):
            with_options[task] = name_with_options
    inputs = [signatures[name].inputs for name in with_options.values()]
    options = tuple(
        option
        for option in SEARCH_OPTIONS
        if inputs and all(option.name in names for names in inputs)
    )
    return Offered(plain, with_options, options, _num_best(signatures, plain, with_options))


def _is_valid(signature: Signature, task: str, options: set[str]) -> bool:
    expected = {"text": "DT_STRING"}
    expected |= {name: _DATA_TYPES[_OPTIONS[name].dtype] for name in options}
    if task == "document" and KEEP_CAPITALS in signature.inputs:
        expected[KEEP_CAPITALS] = "DT_BOOL"
    inputs = {name: TensorSpec(data_type, (None,)) for name, data_type in expected.items()}
    outputs = {
        name: (spec.data_type, len(spec.shape or ())) for name, spec in signature.outputs.items()
    }
    return signature.inputs == inputs and _OUTPUTS[task].items() <= outputs.items()


def _num_best(signatures, *tasks):
    """Returns the number of translations that `nbest` returns, 1 if there is none."""
    sizes = [
        signatures[names["nbest"]].outputs["translations"].shape[1]
        for names in tasks
        if "nbest" in names
    ]
    return max([1, *(size for size in sizes if size)])
