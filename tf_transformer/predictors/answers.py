"""Answers of a predictor to a task, whose signature, options and outputs are checked here."""

from collections.abc import Container, Iterator, Mapping, Sequence
from typing import Any

from tf_transformer.errors import InputError
from tf_transformer.inference.finite_scores import check_scores
from tf_transformer.predictors.predictor import Predictor
from tf_transformer.predictors.signature import Signature, signature_of_task
from tf_transformer.tasks.table import TASKS
from tf_transformer.tasks.task import A_TRANSLATOR, Task


def answer(
    predictor: Predictor,
    task: str,
    inputs: Mapping[str, Sequence],
    options: Mapping[str, Any] | None = None,
    row_numbers: Sequence[int] | None = None,
    *,
    outputs: Sequence[str] | None = None,
    needed_by: str = "",
) -> Iterator[dict[str, list]]:
    """Yields the outputs of a task for some rows after the other, in order.

    Args:
        predictor: what computes it.
        task: name of the task.
        inputs: the inputs of the task by name, with one entry per row.
        options: options and flags by name, each with one value for all rows; the others are unset.
        row_numbers: numbers of the rows in error messages; 1, 2, ... if None.
        outputs: the outputs that are used, which alone must be there; None means all of the task.
        needed_by: what the task is for, such as an option of a command, for error messages.

    Raises:
        InputError: there is no such task, see `find_signature`, a score is not finite, or as
            `predict_batches`.
        OSError: as `predict_batches`.
    """
    given = {name: value for name, value in (options or {}).items() if value is not None}
    name, found = find_signature(predictor, TASKS[task], given, outputs, needed_by)
    num_rows = len(next(iter(inputs.values())))
    values = _unset(TASKS[task]) | given
    rows = {key: [value] * num_rows for key, value in values.items() if key in found.inputs}
    for batch in predictor.predict_batches({**rows, **inputs}, name, row_numbers):
        # With infinite or NaN logits, the other outputs mean nothing either.
        for output in TASKS[task].outputs:
            if output.dtype == "float32" and output.name in batch:
                try:
                    check_scores(batch[output.name])
                except InputError as error:
                    raise InputError(f"the {predictor.description}: {error}") from error
        yield batch


def find_signature(
    predictor: Predictor,
    task: Task,
    options: Mapping[str, Any] | None = None,
    outputs: Sequence[str] | None = None,
    needed_by: str = "",
) -> tuple[str, Signature]:
    """Returns the name and the form of the signature that answers a task.

    Args:
        predictor: what computes it.
        task: the task.
        options: the options and flags that are given, by name.
        outputs: the outputs that it must have; None means all of the task.
        needed_by: what the task is for, for the error message.

    Raises:
        InputError: there is none, or none with the options, or it has other outputs.
    """
    unset = _unset(task)
    chosen = {name for name, value in (options or {}).items() if value != unset.get(name)}
    names = [task.with_options] if chosen else [task.plain, task.with_options]
    signatures = predictor.signatures
    for name in filter(None, names):
        if name in signatures:
            found = signatures[name]
            if fault := form_fault(name, found, outputs):
                raise InputError(f"the {predictor.description}: {fault}")
            if missing := chosen - found.inputs.keys():
                raise InputError(
                    f"the {predictor.description} has no input {sorted(missing)[0]!r} in its "
                    f"signature {name!r}; export the model again"
                )
            return name, found
    if chosen and not needed_by:
        needed_by = "the option " + " or ".join(f"`{name}`" for name in sorted(chosen))
    lack = describe_lack(task, signatures, needed_by, has_options=bool(chosen))
    raise InputError(f"the {predictor.description} {lack}")


def has_task(predictor: Predictor, task: str) -> bool:
    """Returns whether a predictor has a signature of a task."""
    return any(name in predictor.signatures for name in TASKS[task].signatures)


def describe_lack(
    task: Task, signatures: Container[str], needed_by: str = "", *, has_options: bool = False
) -> str:
    """Returns which signatures of a task a model lacks, and how they are exported.

    Args:
        task: the task.
        signatures: the names of the model's signatures.
        needed_by: what the task is for, such as an option of a command.
        has_options: whether options are given for it.
    """
    names = [task.with_options] if has_options else task.signatures
    wanted = " or ".join(map(repr, names))
    needed = f", which {needed_by} needs" if needed_by else ""
    exported_by = task.exported_by
    if not task.needed_option and TASKS["continuation"].with_options in signatures:
        exported_by = A_TRANSLATOR  # it is a language model
    return f"has no signature {wanted}{needed}; export it with {exported_by}"


def _unset(task: Task) -> dict[str, Any]:
    return {flag.name: False for flag in task.flags} | {o.name: o.unset for o in task.options}


def form_fault(name: str, found: Signature, outputs: Sequence[str] | None = None) -> str:
    """Returns what is wrong with a signature of a model, "" if nothing is.

    A server may serve another kind of model. A signature may lack options, as exports of earlier
    versions do.

    Args:
        name: its name, a key of `TASK_OF`.
        found: the signature of the model.
        outputs: the outputs that it must have; None means all of the task.
    """
    expected = signature_of_task(name)
    used = {key: expected.outputs[key] for key in outputs or expected.outputs}
    for what, theirs, ours in (
        ("input", found.inputs, {key: expected.inputs.get(key) for key in found.inputs}),
        ("output", {key: found.outputs.get(key) for key in used}, used),
    ):
        for key, spec in ours.items():
            given = theirs[key]
            if spec is None or given is None or not given.has_form_of(spec):
                return (
                    f"expected a signature {name!r} whose {what} {key!r} is {_describe(spec)}. "
                    f"Received: {_describe(given)}"
                )
    return ""


def _describe(spec):
    if spec is None:
        return "none"
    return f"{spec.data_type.removeprefix('DT_').lower()} with {len(spec.shape or ())} axes"
