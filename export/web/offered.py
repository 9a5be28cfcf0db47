"""What the web page can offer, found in the signatures of the model."""

from collections.abc import Mapping
from typing import NamedTuple

from tf_transformer.decoding.search_options import SEARCH_OPTIONS, RowOption
from tf_transformer.predictors.answers import form_fault
from tf_transformer.predictors.signature import Signature
from tf_transformer.tasks.table import TASKS

_TASKS = ("translate", "document", "nbest", "align", "confidence")
# The outputs of tasks that the page uses, where these are not all.
_USED = {
    "document": ("translation", "score", "truncated"),
    "nbest": ("translations", "scores", "num_tokens", "truncated"),
}


class Offered(NamedTuple):
    """What a model can do for the page.

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


def used_outputs(task: str) -> tuple[str, ...]:
    """Returns the outputs of a task that the page uses."""
    return _USED.get(task) or tuple(output.name for output in TASKS[task].outputs)


def find_offered(signatures: Mapping[str, Signature]) -> Offered:
    """Returns what the page can offer.

    Signatures with other inputs or outputs than those of an export are ignored: a server is not
    trusted, or serves a model of another kind.

    Args:
        signatures: the model's signatures by name.
    """
    plain: dict[str, str] = {}
    with_options: dict[str, str] = {}
    for name in _TASKS:
        task = TASKS[name]
        for offered, signature in ((plain, task.plain), (with_options, task.with_options)):
            if signature and signature in signatures and _is_valid(signatures, signature, name):
                offered[name] = signature
    inputs = [signatures[name].inputs for name in with_options.values()]
    options = tuple(
        option
        for option in SEARCH_OPTIONS
        if inputs and all(option.name in names for names in inputs)
    )
    return Offered(plain, with_options, options, _num_best(signatures, plain, with_options))


def _is_valid(signatures: Mapping[str, Signature], name: str, task: str) -> bool:
    found = signatures[name]
    needed = {own.name for own in TASKS[task].inputs}
    is_whole = needed <= found.inputs.keys() and not form_fault(name, found, used_outputs(task))
    return is_whole and all(spec.shape == (None,) for spec in found.inputs.values())


def _num_best(signatures, *tasks):
    """Returns the number of translations that `nbest` returns, 1 if there is none."""
    sizes = [
        signatures[names["nbest"]].outputs["translations"].shape[1]
        for names in tasks
        if "nbest" in names
    ]
    return max([1, *(size for size in sizes if size)])
