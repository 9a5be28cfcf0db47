"""Removes the functions that TensorFlow wraps around the signatures of a SavedModel.

A wrapper orders the inputs and outputs of a signature by name, and calls its function. When a
server starts, TensorFlow analyses each function together with all functions that it calls, so that
a wrapper takes as long as what it wraps.
"""

from tensorflow.core.framework.function_pb2 import FunctionDef
from tensorflow.core.framework.node_def_pb2 import NodeDef
from tensorflow.core.protobuf.meta_graph_pb2 import MetaGraphDef

_CALLS = ("PartitionedCall", "StatefulPartitionedCall")


def call_directly(meta_graph: MetaGraphDef) -> None:
    """Lets the signatures call their functions without wrappers.

    This concerns sessions, such as those of TF Serving: `tf.saved_model.load` does not read the
    graph that is changed here. The wrappers stay in the file for it.

    Args:
        meta_graph: changed in place.
    """
    graph = meta_graph.graph_def
    functions = {function.signature.name: function for function in graph.library.function}
    used = {name.removeprefix("^").split(":")[0] for node in graph.node for name in node.input}
    outputs = {
        node.name: _replace_wrapper(node, functions[node.attr["f"].func.name])
        for node in graph.node
        if node.op in _CALLS and node.name not in used
    }
    for signature in meta_graph.signature_def.values():
        for tensor in signature.outputs.values():
            name, _, index = tensor.name.partition(":")
            if outputs.get(name):
                tensor.name = f"{name}:{outputs[name][int(index)]}"


def _replace_wrapper(node: NodeDef, wrapper: FunctionDef) -> list[int]:
    """Replaces a call of a wrapper by the call in the wrapper.

    Returns:
        The new index of each output; empty if the call stays, since its function is no wrapper.
    """
    calls = [inner for inner in wrapper.node_def if inner.op in _CALLS]
    others = {inner.op for inner in wrapper.node_def if inner.op not in _CALLS}
    if len(calls) != 1 or not others <= {"Identity", "NoOp"}:
        return []
    (call,) = calls
    arguments = [argument.name for argument in wrapper.signature.input_arg]
    copied = {
        f"{inner.name}:output:0": inner.input[0]
        for inner in wrapper.node_def
        if inner.op == "Identity"
    }
    results = [wrapper.ret[output.name] for output in wrapper.signature.output_arg]
    results = [copied.get(name, name) for name in results]
    if (
        len(node.input) != len(arguments)
        or not set(call.input) <= set(arguments)
        or any(not name.startswith(f"{call.name}:output:") for name in results)
    ):
        return []
    given = dict(zip(arguments, node.input, strict=True))
    node.op = call.op
    node.input[:] = [given[name] for name in call.input]
    node.attr.clear()
    for name, value in call.attr.items():
        node.attr[name].CopyFrom(value)
    return [int(name.rpartition(":")[2]) for name in results]
