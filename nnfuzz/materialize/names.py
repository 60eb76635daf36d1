"""Restores the names and types of a model's inputs and outputs after an export."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import onnx

from nnfuzz.ir.expr import Int
from nnfuzz.ir.types import TensorType
from nnfuzz.materialize import protos
from nnfuzz.materialize.walk import graphs


def restore(graph: onnx.GraphProto, inputs: Sequence[str], outputs: Sequence[str]) -> bool:
    """Give inputs and outputs the wanted names, by position. Returns whether anything changed.

    Exporters drop operators without effect (a Cast to the same type), so that an output may have
    the name of an input, a weight or another output. Such an output gets an Identity. Raises:
    ValueError if the numbers of inputs or outputs differ.
    """
    found = [i.name for i in graph.input], [o.name for o in graph.output]
    for kind, have, want in zip(("inputs", "outputs"), found, (inputs, outputs)):
        if len(have) != len(want):
            raise ValueError(f"the model has the {kind} {have}, not {list(want)}")
    constants = [tensor.name for tensor in graph.initializer if tensor.name in set(found[1])]
    if found == (list(inputs), list(outputs)) and not constants:
        return _drop_loops(graph)
    _rename(graph, {name: f"{name}_constant" for name in constants})
    _rename(graph, {a: b for a, b in zip(found[0], inputs) if a != b})
    _drop_loops(graph)
    _own_outputs(graph, outputs)
    return True


def readmit(graph: onnx.GraphProto, inputs: Mapping[str, TensorType]) -> bool:
    """Declare the inputs that the exporter dropped, in order. Returns whether there were any.

    Exporters drop inputs that nothing reads, for example if only the shape was used and became a
    constant. Does nothing if the exporter has renamed inputs.
    """
    declared = {item.name: item for item in graph.input}
    if len(declared) == len(inputs) or not declared.keys() <= inputs.keys():
        return False
    complete = [declared.get(n) or protos.value_info(n, t) for n, t in inputs.items()]
    del graph.input[:]
    graph.input.extend(complete)
    return True


def redeclare(graph: onnx.GraphProto, outputs: Mapping[str, TensorType]) -> bool:
    """Declare outputs with their actual shapes. Returns whether a declaration was wrong.

    PyTorch 2.13 declares the output of an If with the shape of one branch although the other one
    runs, and compilers refuse a model with a wrong declaration. Symbolic dimensions stay.
    """
    wrong = {item.name for item in graph.output if not _holds(item, outputs[item.name].shape)}
    for item in graph.output:
        if item.name in wrong:
            shape = protos.value_info(item.name, outputs[item.name]).type.tensor_type.shape
            item.type.tensor_type.shape.CopyFrom(shape)
    return bool(wrong)


def _holds(declared: onnx.ValueInfoProto, shape: Sequence[Int]) -> bool:
    if not declared.type.tensor_type.HasField("shape"):
        return True
    dims = declared.type.tensor_type.shape.dim
    return len(dims) == len(shape) and all(
        not dim.HasField("dim_value") or dim.dim_value == size for dim, size in zip(dims, shape)
    )


def _drop_loops(graph: onnx.GraphProto) -> bool:
    """Remove any Identity from a value to itself, which PyTorch writes for a returned input.

    Such a model is invalid, because the name is defined twice. Returns whether there was one.
    """
    before = len(graph.node)
    for i in reversed(range(len(graph.node))):
        node = graph.node[i]
        if node.op_type == "Identity" and list(node.input) == list(node.output):
            del graph.node[i]
    return len(graph.node) < before


def put_before(prefix: str, graph: onnx.GraphProto) -> None:
    """Puts a prefix before the names of all nodes and values, also in sub-graphs."""
    names = {value.name: prefix + value.name for value in (*graph.input, *graph.initializer)}
    for node in (node for part in graphs(graph) for node in part.node):
        names |= {name: prefix + name for name in (*node.input, *node.output) if name}
        node.name = prefix + node.name
    _rename(graph, names)


def _rename(graph: onnx.GraphProto, names: dict[str, str]) -> None:
    """Rename values wherever they are defined, read or declared, also in sub-graphs."""
    for part in graphs(graph):
        for node in part.node:
            for used in (node.input, node.output):
                used[:] = [names.get(name, name) for name in used]
        for item in (*part.input, *part.output, *part.value_info, *part.initializer):
            item.name = names.get(item.name, item.name)


def _own_outputs(graph: onnx.GraphProto, outputs: Sequence[str]) -> None:
    """Add an Identity for each output that has a wrong name."""
    for item, wanted in zip(graph.output, outputs):
        if item.name != wanted:
            copy = onnx.NodeProto(op_type="Identity", name=f"Identity_{wanted}")
            copy.input.append(item.name)
            copy.output.append(wanted)
            graph.node.append(copy)
            item.name = wanted
