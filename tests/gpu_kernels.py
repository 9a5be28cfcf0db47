"""Which operations of a graph a GPU can compute, by the kernels that TensorFlow has registered.

TensorFlow's packages for Linux contain the kernels for GPUs, and name them without a GPU, too.
"""

import functools
import re
from collections.abc import Iterator

import tensorflow as tf
from tensorflow.core.framework import op_def_pb2
from tensorflow.core.framework.graph_pb2 import GraphDef
from tensorflow.core.framework.kernel_def_pb2 import KernelDef
from tensorflow.core.framework.node_def_pb2 import NodeDef
from tensorflow.python.framework import kernels, op_def_registry

_DEVICES = ("GPU", "DEFAULT")


def nodes_of(graph: GraphDef) -> Iterator[NodeDef]:
    """All operations of a graph and its functions, except calls of its functions by their name."""
    functions = {function.signature.name for function in graph.library.function}
    for nodes in (graph.node, *(function.node_def for function in graph.library.function)):
        yield from (node for node in nodes if node.op not in functions)


def gpu_kernel(node: NodeDef) -> KernelDef | None:
    """The kernel that computes an operation on a GPU, or None."""
    fitting = [kernel for kernel in _kernels(node.op) if _fits(kernel, node)]
    fitting.sort(key=lambda kernel: (_DEVICES.index(kernel.device_type), -kernel.priority))
    return fitting[0] if fitting else None


def on_the_cpu(graph: GraphDef) -> set[tuple[str, ...]]:
    """Names and types of the operations that have no kernel for GPUs."""
    return {(node.op, *_types(node)) for node in nodes_of(graph) if gpu_kernel(node) is None}


def devices_named(graph: GraphDef) -> set[str]:
    """Devices that operations name, except those of TensorFlow's that save and restore."""
    functions = [
        function.node_def
        for function in graph.library.function
        if not re.search("_traced_(save|restore)_", function.signature.name)
    ]
    return {node.device for nodes in functions for node in nodes} - {""}


@functools.cache
def _kernels(op: str) -> list[KernelDef]:
    found = kernels.get_registered_kernels_for_op(op).kernel
    return [kernel for kernel in found if kernel.device_type in _DEVICES and not kernel.label]


@functools.cache
def _defaults(op: str) -> dict[str, op_def_pb2.OpDef.AttrDef]:
    return {attribute.name: attribute for attribute in op_def_registry.get(op).attr}


def _value(node, name):
    """The value of an attribute; a SavedModel leaves out those that have the default value."""
    return node.attr[name] if name in node.attr else _defaults(node.op)[name].default_value


def _fits(kernel, node):
    for constraint in kernel.constraint:
        value = _value(node, constraint.name)
        given = [value.type] if value.WhichOneof("value") == "type" else list(value.list.type)
        if not set(given) <= set(constraint.allowed_values.list.type):
            return False
    return True


def _types(node):
    names = [name for name, attribute in _defaults(node.op).items() if attribute.type == "type"]
    return [tf.as_dtype(_value(node, name).type).name for name in sorted(names)]
