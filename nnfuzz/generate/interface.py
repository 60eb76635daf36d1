"""Keeps models free of inputs and outputs of kinds that a compiler refuses.

The compiler may well take values of these kinds inside of a model.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace

from nnfuzz.ir.dtypes import DType
from nnfuzz.ir.graph import Graph, Node, Value
from nnfuzz.ir.types import TensorType
from nnfuzz.operators.operator import OpSpec

INPUT, OUTPUT, RANK_0 = "input", "output", "rank 0"


def refuses(kinds: Collection[str], end: str, type_: TensorType) -> bool:
    """Whether an input or output of a type is refused. kinds: such as "input int64" and "output
    rank 0". end: INPUT or OUTPUT.
    """
    return f"{end} {type_.dtype.text}" in kinds or f"{end} rank {type_.rank}" in kinds


def is_taken(graph: Graph, kinds: Collection[str]) -> bool:
    """Whether no input or output is of a refused kind."""
    inputs = (refuses(kinds, INPUT, t) for t in graph.types(graph.inputs))
    return not any(inputs) and not any(
        refuses(kinds, OUTPUT, t) for t in graph.types(graph.outputs)
    )


def fitted(graph: Graph, kinds: Collection[str], spec: Callable[[str], type[OpSpec]]) -> Graph:
    """The graph with inputs of refused kinds as weights, and with outputs of such kinds cast to
    float32 or made vectors.
    """
    values, nodes, outputs = dict(graph.values), list(graph.nodes), []

    def behind(op: OpSpec, name: str) -> str:
        (type_,) = op.type_transfer(values[name].type)
        made = f"{name}_end{len(nodes)}"
        values[made] = Value(made, type_)
        nodes.append(Node(op, (name,), (made,)))
        return made

    for name in graph.outputs:
        type_ = graph.type(name)
        if refuses(kinds, OUTPUT, replace(type_, shape=(1,))):
            name = behind(spec("Cast")(to=DType.FLOAT32, saturate=1), name)
        if not type_.rank and f"{OUTPUT} {RANK_0}" in kinds:
            name = behind(spec("Unsqueeze")(axes=(0,)), name)
        outputs.append(name)
    given = [n for n in graph.inputs if not refuses(kinds, INPUT, graph.type(n))]
    weights = [*graph.weights, *(n for n in graph.inputs if n not in given)]
    return Graph(values, nodes, given, weights, outputs, dict(graph.prescribed))
