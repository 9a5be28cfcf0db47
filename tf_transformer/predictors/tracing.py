"""The functions of tensors that compute the signatures of tasks."""

from typing import Any

import tensorflow as tf

from tf_transformer.tasks.parts import Parts
from tf_transformer.tasks.table import TASK_OF


def trace(parts: Parts, signature: str) -> Any:
    """Returns a concrete function: saving would trace and save any other function twice.

    Its arguments are the inputs, in the order of `Task.inputs_of`; it returns the outputs by name.

    Args:
        parts: the model.
        signature: name of a signature of a task.
    """
    task = TASK_OF[signature]
    inputs = list(task.inputs_of(signature))

    def compute(*values):
        names = (own.name for own in inputs)
        return task.compute(parts, **dict(zip(names, values, strict=True)))

    # A fixed width lets a server merge the requests of all callers.
    specs = []
    for own in inputs:
        has_width = getattr(own, "has_source_width", False)
        width = [parts.translator.source_limit] if has_width else []
        specs.append(tf.TensorSpec([None, *width], own.dtype, own.name))
    function = tf.function(compute, input_signature=specs, autograph=False)
    return function.get_concrete_function()
