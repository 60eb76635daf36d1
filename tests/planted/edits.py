"""Edits of ONNX models, the parts of the planted compilers of wrong_*.py."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial, wraps

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from nnfuzz.materialize.walk import bodies, graphs

Model = onnx.ModelProto


Apply = Callable[[Model], bool]
Parts = Callable[[list[str], str], list[tuple]]
"""(inputs, output) of a node -> (operator, inputs, outputs) of each node in its place."""
FLOATS = (TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.FLOAT16)


@dataclass(frozen=True)
class WrongCompiler:
    """apply: changes a model as the compiler's fault does; whether there was anything to change."""

    name: str
    text: str
    apply: Apply


class Compilers(list[WrongCompiler]):
    """Collects wrong compilers by decorators; a function's name and docstring become theirs."""

    def __call__(self, apply: Apply, group: str = "") -> Apply:
        """Adds a compiler. group: the beginning of its text."""
        text = f"{group}: " * bool(group) + " ".join((apply.__doc__ or "").split())
        self.append(WrongCompiler(apply.__name__, text, apply))
        return apply

    def of(self, group: str) -> Callable[[Apply], Apply]:
        return partial(self, group=group)

    def replacing(self, operator: str) -> Callable[[Parts], Parts]:
        """Adds a compiler that replaces all nodes of an operator with floats."""

        def add(parts: Parts) -> Parts:
            apply = wraps(parts)(lambda model: replaced(model, operator, parts))
            self(apply)
            return parts

        return add


def nodes(model: Model) -> Iterator[onnx.NodeProto]:
    """All nodes, those of sub-graphs and functions included."""
    for graph in graphs(model.graph):
        yield from graph.node
    for function in model.functions:
        yield from inside(function.node)


def inside(found: Iterable[onnx.NodeProto]) -> Iterator[onnx.NodeProto]:
    for node in found:
        yield node
        for body in bodies(node):
            for graph in graphs(body):
                yield from graph.node


def constants(model: Model) -> dict[str, onnx.TensorProto]:
    return {tensor.name: tensor for tensor in model.graph.initializer}


def makers(model: Model) -> dict[str, onnx.NodeProto]:
    return {name: node for node in nodes(model) for name in node.output if name}


def attribute(node: onnx.NodeProto, name: str) -> onnx.AttributeProto | None:
    return next((a for a in node.attribute if a.name == name), None)


def readers(model: Model, name: str) -> list[onnx.NodeProto]:
    return [node for node in nodes(model) if name in node.input]


def set_constant(tensor: onnx.TensorProto, array: np.ndarray) -> None:
    tensor.CopyFrom(numpy_helper.from_array(np.ascontiguousarray(array), tensor.name))


def dtypes_of(model: Model) -> dict[str, int]:
    graph = onnx.shape_inference.infer_shapes(model).graph
    declared = (*graph.input, *graph.value_info, *graph.output)
    found = {value.name: value.type.tensor_type.elem_type for value in declared}
    return found | {tensor.name: tensor.data_type for tensor in graph.initializer}


def replaced(model: Model, operator: str, parts: Parts) -> bool:
    """Replaces all nodes of an operator that read floats; returns whether there are any."""
    dtypes, kept, changed = dtypes_of(model), [], False
    for node in model.graph.node:
        floats = any(dtypes.get(name) in FLOATS for name in node.input)
        if node.op_type == operator and floats and len(node.output) == 1:
            made = parts([*node.input], node.output[0])
            kept += [helper.make_node(op, inputs, outputs) for op, inputs, outputs in made]
            changed = True
        else:
            kept.append(onnx.NodeProto.FromString(node.SerializeToString()))
    if changed:
        del model.graph.node[:]
        model.graph.node.extend(kept)
    return changed


def into_identity(node: onnx.NodeProto, source: str) -> None:
    name, outputs = node.name, [node.output[0]]
    node.CopyFrom(helper.make_node("Identity", [source], outputs, name=name))


def shapes_of(model: Model) -> dict[str, tuple[int, ...] | None]:
    """Dtype and sizes of values of the main graph, as one tuple each."""
    try:
        graph = onnx.shape_inference.infer_shapes(model).graph
    except Exception:
        return {}
    found: dict[str, tuple[int, ...] | None] = {}
    for value in (*graph.input, *graph.value_info, *graph.output):
        dims = value.type.tensor_type.shape.dim
        found[value.name] = tuple(d.dim_value for d in dims)
    found |= {tensor.name: tuple(tensor.dims) for tensor in graph.initializer}
    return found
