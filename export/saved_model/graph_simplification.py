"""Removes redundant operations from the functions of a SavedModel, and keeps small loops as calls.

Tracing adds the same constants and the same computations of shapes again for every layer, and an
`Identity` wherever a value leaves a loop: together about half of all operations. TensorFlow's graph
optimizer (Grappler) would remove them, too, but at every start of a server, and for each signature
again. Only computations of shapes and choices by masks are merged, and they give the same values,
so the results of the functions stay the same bit by bit. In loops that are made calls of functions,
products may round otherwise, see `graph_options.loops_are_calls`.
"""

import pathlib
from collections.abc import Collection

from tensorflow.core.framework import types_pb2
from tensorflow.core.framework.function_pb2 import FunctionDef
from tensorflow.core.framework.node_def_pb2 import NodeDef
from tensorflow.core.protobuf.meta_graph_pb2 import MetaGraphDef
from tensorflow.core.protobuf.saved_model_pb2 import SavedModel

from export.saved_model.direct_calls import call_directly

# Merged if they compute with whole numbers or truth values.
_MERGED = frozenset(
    (
        *("Add", "AddV2", "Sub", "Mul", "FloorDiv", "FloorMod", "Maximum", "Minimum", "Prod"),
        *("Equal", "NotEqual", "Greater", "GreaterEqual", "Less", "LessEqual"),
        *("LogicalAnd", "LogicalNot", "LogicalOr", "Cast", "Range", "StridedSlice", "ConcatV2"),
        *("Pack", "Reshape", "ExpandDims", "Squeeze"),
    )
)
# Kernels that write into their first input.
_IN_PLACE = ("InplaceAdd", "InplaceSub", "InplaceUpdate")
# Kernels whose output may share the memory of their first input.
_ALIASES = ("Cast", "ExpandDims", "Identity", "Reshape", "Squeeze")
# Control flow as of TensorFlow 1, where copies decide what is run.
_CONTROL_FLOW = frozenset(("Enter", "Exit", "LoopCond", "Merge", "NextIteration", "Switch"))
_LOOPS = frozenset(("While", "StatelessWhile"))
# Merged for any type; `SelectV2` makes biases from masks, the same in every layer.
_ALWAYS_MERGED = frozenset(["Const", "Rank", "Shape", "Size", "SelectV2"])
_SHAPE_TYPES = (types_pb2.DT_INT32, types_pb2.DT_INT64, types_pb2.DT_BOOL)


def simplify_saved_model(folder: pathlib.Path, *, loops_are_calls: bool) -> None:
    """Simplifies the functions of a SavedModel in place.

    Args:
        folder: the SavedModel, which nothing else may read at this time.
        loops_are_calls: whether loops stay calls of functions.

    Raises:
        OSError: the file cannot be read or written.
    """
    path = folder / "saved_model.pb"
    saved_model = SavedModel.FromString(path.read_bytes())
    for graph in saved_model.meta_graphs:
        captured = _captured(graph)
        for function in graph.graph_def.library.function:
            simplify_function(function, captured.get(function.signature.name, ()))
            if loops_are_calls:
                _keep_calls(function)
        call_directly(graph)
    path.write_bytes(saved_model.SerializeToString(deterministic=True))
    # TensorFlow's hash of the former file; it is optional.
    (folder / "fingerprint.pb").unlink(missing_ok=True)


def _captured(graph: MetaGraphDef) -> dict[str, set[str]]:
    """Returns the operations to which the graph's objects refer by name, for each function.

    They are what a custom gradient, such as that of `swish`, uses of the function that it is for.
    """
    found: dict[str, set[str]] = {}
    for node in graph.object_graph_def.nodes:
        if node.WhichOneof("kind") == "captured_tensor":
            tensor = node.captured_tensor
            found.setdefault(tensor.concrete_function, set()).add(_operation(tensor.name))
    return found


def simplify_function(function: FunctionDef, kept: Collection[str] = ()) -> None:
    """Removes operations that repeat an earlier one, copy a value, or are not used; see above.

    Functions with control flow as of TensorFlow 1 are left as they are.

    Args:
        function: changed in place. Its arguments, results and side effects stay the same.
        kept: names of operations that others refer to.
    """
    if any(node.op in _CONTROL_FLOW for node in function.node_def):
        return
    redundant = _Redundant(function, kept)
    nodes = [node for node in function.node_def if not redundant.add(node)]
    for node in nodes:  # inputs may have been found redundant later
        redundant.replace_inputs(node)
    for name, value in list(function.ret.items()):
        function.ret[name] = redundant.resolve(value)
    for name, value in list(function.control_ret.items()):
        function.control_ret[name] = redundant.resolve(f"^{value}").removeprefix("^")
    results = [*function.ret.values(), *function.control_ret.values()]
    nodes = _without_unused(nodes, [*results, *redundant.kept])
    del function.node_def[:]
    function.node_def.extend(nodes)


def _keep_calls(function):
    for node in function.node_def:
        if node.op in _LOOPS:
            node.attr["_lower_using_switch_merge"].b = False


class _Redundant:
    """The redundant operations of a function, and what replaces them.

    Inputs have the names of `FunctionDef`: `argument`, `operation:output:index`, or `^operation`
    for an operation that has to run before.
    """

    def __init__(self, function: FunctionDef, kept: Collection[str]):
        self._arguments = {argument.name for argument in function.signature.input_arg}
        self.kept = {*kept, *_colocated(function), *_overwritten(function)}
        self._first: dict[bytes, str] = {}  # names of operations by content
        self._repeated: dict[str, str] = {}  # names of operations by those that repeat them
        self._copied: dict[str, str] = {}  # tensors by the `Identity` that copies them

    def add(self, node: NodeDef) -> bool:
        """Returns whether an operation is redundant."""
        self.replace_inputs(node)
        if node.name in self.kept:
            return False
        if node.op == "Identity":
            is_copy = len(node.input) == 1 and node.input[0] not in self._arguments
            if is_copy:
                self._copied[node.name] = node.input[0]
            return is_copy
        if not _is_merged(node):
            return False
        first = self._first.setdefault(_content(node), node.name)
        if first != node.name:
            self._repeated[node.name] = first
        return first != node.name

    def replace_inputs(self, node: NodeDef) -> None:
        """Replaces the inputs of an operation that are known to be redundant."""
        node.input[:] = [self.resolve(name) for name in node.input]

    def resolve(self, name: str) -> str:
        """Returns the name of the input that replaces a redundant one, or the same name."""
        while True:
            operation, *output = name.removeprefix("^").split(":")
            is_control = name.startswith("^")
            if operation in self._repeated:
                name = ":".join(["^" * is_control + self._repeated[operation], *output])
            elif operation in self._copied:
                name = self._copied[operation]
                if is_control:
                    name = "^" + name.split(":")[0]
            else:
                return name


def _colocated(function: FunctionDef) -> set[str]:
    """Returns the operations to which others refer by name."""
    return {
        name.decode().removeprefix("loc:@")
        for node in function.node_def
        if "_class" in node.attr
        for name in node.attr["_class"].list.s
    }


def _overwritten(function: FunctionDef) -> set[str]:
    """Returns the operations into whose results a kernel writes; each needs its own."""
    nodes = {node.name: node for node in function.node_def}
    names = {_operation(node.input[0]) for node in nodes.values() if node.op in _IN_PLACE}
    found: set[str] = set()
    while names:
        found |= names
        aliases = [nodes[name] for name in names if name in nodes and nodes[name].op in _ALIASES]
        names = {_operation(node.input[0]) for node in aliases} - found
    return found


def _is_merged(node: NodeDef) -> bool:
    if node.op in _ALWAYS_MERGED:
        return True
    types = [value.type for value in node.attr.values() if value.WhichOneof("value") == "type"]
    return node.op in _MERGED and all(kind in _SHAPE_TYPES for kind in types)


def _content(node: NodeDef) -> bytes:
    """Returns what is the same in operations with the same result."""
    content = NodeDef()
    content.CopyFrom(node)
    content.ClearField("name")
    content.ClearField("experimental_debug_info")
    return content.SerializeToString(deterministic=True)


def _without_unused(nodes: list[NodeDef], results: list[str]) -> list[NodeDef]:
    """Returns the operations without computations of shapes that nothing uses."""
    users = [name for node in nodes if not _is_merged(node) for name in node.input]
    used, inputs = set(), {node.name: node.input for node in nodes}
    open_names = [_operation(name) for name in (*users, *results)]
    while open_names:
        name = open_names.pop()
        if name not in used:
            used.add(name)
            open_names += [_operation(given) for given in inputs.get(name, ())]
    return [node for node in nodes if node.name in used or not _is_merged(node)]


def _operation(name: str) -> str:
    return name.removeprefix("^").split(":")[0]
