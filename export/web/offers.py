"""What the web page can offer, found in the signatures of the model."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from tf_transformer.decoding.search_options import SEARCH_OPTIONS, RowOption
from tf_transformer.errors import InputError
from tf_transformer.predictors.answers import describe_lack, form_fault
from tf_transformer.predictors.signature import Signature
from tf_transformer.tasks.table import TASKS

_TASKS = ("translate", "document", "nbest", "align", "confidence")
# Those that translate a sentence, the preferred first.
SENTENCE_TASKS = ("translate", "nbest", "align")
# The outputs of tasks that the page uses, where these are not all.
_USED = {
    "document": ("translation", "score", "truncated"),
    "nbest": ("translations", "scores", "num_tokens", "truncated"),
}


class Offers(NamedTuple):
    """What a model can do for the page.

    Attributes:
        plain: tasks (`translate`, `document`, `nbest`, `align`, `confidence`) with default options,
            and their signatures.
        with_options: tasks with search options, and their signatures.
        options: the search options that all of `with_options` have.
        num_best: largest number of translations per sentence.
        names: the names of all signatures of the model.
    """

    plain: dict[str, str]
    with_options: dict[str, str]
    options: tuple[RowOption, ...]
    num_best: int
    names: frozenset[str]

    def has(self, task: str, *, has_options: bool = False) -> bool:
        """Returns whether a signature for this task is exported.

        Args:
            task: name of the task.
            has_options: whether it must have search options.
        """
        return task in self.with_options or (not has_options and task in self.plain)

    def check(self, task: str, needed_by: str, *, has_options: bool = False) -> None:
        """Checks that there is a signature for this task.

        Args:
            task: name of the task.
            needed_by: what the task is for, for the error message.
            has_options: whether it must have search options.

        Raises:
            InputError: there is none; the message says how it is exported.
        """
        if not self.has(task, has_options=has_options):
            lack = describe_lack(TASKS[task], self.names, needed_by, has_options=has_options)
            raise InputError(f"the model {lack}")

    def sentence_task(self, needed_by: str, *, has_options: bool) -> str:
        """Returns the task that translates sentences.

        Args:
            needed_by: what the search options are for, for the error message.
            has_options: whether there are search options.

        Raises:
            InputError: there is none.
        """
        tasks = (task for task in SENTENCE_TASKS if self.has(task, has_options=has_options))
        found = next(tasks, SENTENCE_TASKS[0])
        self.check(found, needed_by, has_options=has_options)
        return found


def used_outputs(task: str) -> tuple[str, ...]:
    """Returns the outputs of a task that the page uses."""
    return _USED.get(task) or tuple(output.name for output in TASKS[task].outputs)


def find_offers(signatures: Mapping[str, Signature], search: Mapping[str, Any]) -> Offers:
    """Returns what the page can offer.

    Signatures with other inputs or outputs than those of an export are ignored: a server is not
    trusted, or serves a model of another kind.

    Args:
        signatures: the model's signatures by name.
        search: the search options of requests that give none, by name. Their beam size is also the
            largest: the page is that of a model which was exported with it.
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
        _described(option, search)
        for option in SEARCH_OPTIONS
        if inputs and all(option.name in names for names in inputs)
    )
    num_best = _num_best(signatures, plain, with_options)
    num_best = min(num_best, search.get("beam_size", num_best))
    return Offers(plain, with_options, options, num_best, frozenset(signatures))


def _described(option: RowOption, search: Mapping[str, Any]) -> RowOption:
    """Returns an option with the default and the limit that the command gives it."""
    if (value := search.get(option.name)) is None:
        return option
    option = option._replace(unset_meaning=f"{value:g}")
    return option._replace(largest=value) if option.name == "beam_size" else option


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
