"""Runs a concrete graph with PyTorch, as a function that returns all values or as an nn.Module."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from torch import Tensor, nn

from nnfuzz.ir.graph import Graph, Node
from nnfuzz.materialize.errors import GraphFault
from nnfuzz.operators import carriers
from nnfuzz.operators.carriers import settled
from nnfuzz.operators.operator import flatten

Array = np.ndarray | Tensor
Values = Mapping[str, Tensor]


class Interpreter:
    """Runs the nodes of a graph one after the other, in whatever dtype the inputs have.

    Dtypes in which PyTorch cannot compute are held in wider ones (nnfuzz.operators.carriers).
    Create it once for a graph that runs often.
    """

    def __init__(self, graph: Graph) -> None:
        self.steps = [(n.op.torch, n.inputs, n.outputs) for n in graph.nodes]
        self._carried = {n: v.type.dtype for n, v in graph.values.items() if v.type.dtype.carried}

    def __call__(self, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Inputs and weights by name -> all values by name, including the given ones.

        Raises: KeyError for a missing input or weight; any exception of an operator.
        """
        values = dict(tensors)
        for function, inputs, outputs in self.steps:
            result = function(*[values[name] for name in inputs])
            if isinstance(result, Tensor):
                values[outputs[0]] = result
            else:
                values.update(zip(outputs, result, strict=True))
            if self._carried:
                values.update(self._settled(outputs, values))
        return values

    def _settled(self, names: Sequence[str], values: Values) -> dict[str, Tensor]:
        carried = self._carried
        return {n: settled(values[n], carried[n]) for n in names if n in carried}


def execute(graph: Graph, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """All values of the graph by name. `Interpreter` is faster if the graph runs often."""
    return Interpreter(graph)(tensors)


def execute_checked(graph: Graph, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """`execute`, but every result must have the declared type.

    Raises: GraphFault naming the operator that raised or returned another type.
    """
    values = dict(tensors)
    for node in graph.nodes:
        try:
            found = flatten(node.op.torch(*[values[name] for name in node.inputs]))
            dtypes = [t.dtype for t in graph.types(node.outputs)]
            results = [settled(x, d) for x, d in zip(found, dtypes, strict=True)]
        except Exception as error:
            detail = f"{node!r} raised {type(error).__name__}: {error}"
            raise GraphFault(node.op.name, "torch", detail) from error
        _check_types(graph, node, results)
        values.update(zip(node.outputs, results))
    return values


def _check_types(graph: Graph, node: Node, results: list[Tensor]) -> None:
    actual = [(t.dtype, tuple(t.shape)) for t in results]
    declared = [(t.dtype.torch, t.shape) for t in graph.types(node.outputs)]
    if actual != declared:
        raise GraphFault(node.op.name, "torch", f"{node!r} yields {actual}, declared {declared}")


class GraphModule(nn.Module):
    """A graph as a module: inputs by position, weights as buffers, a tuple of outputs.

    An output that the graph lists twice is returned once, because outputs are identified by name.
    """

    def __init__(self, graph: Graph, weights: Mapping[str, Array]) -> None:
        """Raises: KeyError if a weight is missing."""
        super().__init__()
        self.input_names = tuple(graph.inputs)
        self.output_names = tuple(dict.fromkeys(graph.outputs))
        self._weight_names = tuple(graph.weights)
        self._interpreter = Interpreter(graph)
        for name in graph.weights:
            # Not register_buffer: it refuses names that nn.Module uses, such as "training".
            self._buffers[name] = copied_tensor(weights[name])

    def forward(self, *inputs: Tensor) -> tuple[Tensor, ...]:
        values = dict(zip(self.input_names, inputs, strict=True))
        values.update({name: self._buffers[name] for name in self._weight_names})  # type: ignore[misc]
        values = self._interpreter(values)
        return tuple(values[name] for name in self.output_names)


def copied_tensor(array: Array) -> Tensor:
    """A tensor with a copy of an array. A tensor is returned as it is, without its gradient."""
    return array.detach() if isinstance(array, Tensor) else carriers.tensor(np.asarray(array))


def tensors(arrays: Mapping[str, Array]) -> dict[str, Tensor]:
    """`copied_tensor` for every array, by name."""
    return {name: copied_tensor(array) for name, array in arrays.items()}
