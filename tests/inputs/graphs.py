"""Small concrete graphs, written by hand."""

from __future__ import annotations

from collections.abc import Sequence

from nnfuzz.ir.dtypes import DType
from nnfuzz.ir.graph import Graph, Node, Value
from nnfuzz.ir.types import TensorType
from nnfuzz.operators.operator import OpSpec
from nnfuzz.operators.registry import OpRegistry

REGISTRY = OpRegistry.load()
FLOAT = TensorType(DType.FLOAT32, (3, 4))


def op(name: str, **attributes: object) -> OpSpec:
    return REGISTRY.get(name)(**attributes)


def build(
    parameters: dict[str, TensorType],
    nodes: Sequence[tuple[str, OpSpec, Sequence[str]]],
    weights: Sequence[str] = (),
) -> Graph:
    """A graph of (output, operator, inputs) whose last node computes the output."""
    graph = Graph()
    graph.values = {name: Value(name, type_) for name, type_ in parameters.items()}
    graph.inputs = [name for name in parameters if name not in weights]
    graph.weights = list(weights)
    for output, operator, inputs in nodes:
        types = operator.type_transfer(*graph.types(inputs))
        names = (output, *(f"{output}/{i}" for i in range(1, len(types))))
        graph.values |= {name: Value(name, type_) for name, type_ in zip(names, types)}
        graph.nodes.append(Node(operator, tuple(inputs), names))
    graph.outputs = [nodes[-1][0]]
    graph.verify()
    return graph


def chain(*operators: OpSpec, type_: TensorType = FLOAT) -> Graph:
    """Unary operators one behind the other, fed by one input."""
    names = ["x", *(f"v{i}" for i in range(len(operators)))]
    return build(
        {"x": type_}, [(o, operator, [i]) for i, o, operator in zip(names, names[1:], operators)]
    )
