"""Nodes of an imported ONNX model that are replaced by a graph of operators with specs.

The import (nnfuzz.materialize.expansion) makes such a graph of the branches of an If, the
iterations of a Loop and the function body of an operator. Compilers still get the original nodes.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from torch import Tensor

from nnfuzz.ir.dtypes import DType
from nnfuzz.ir.graph import Graph, Node, Value
from nnfuzz.ir.types import TensorType
from nnfuzz.operators.attributes import Choice
from nnfuzz.operators.families.composite import Apply, Composite
from nnfuzz.operators.foreign import Foreign
from nnfuzz.operators.operator import OpSpec

Arrays = Mapping[str, np.ndarray]


class Expanded(Composite, Foreign):
    """Original nodes and a graph of operators that computes the same.

    meaning: that graph in JSON; its inputs have the names of the nodes' inputs. Weights are (dtype
    name, shape, bytes in base64).
    """

    name = "Expanded"
    meaning = Choice(("",))
    lookup: ClassVar[Callable[[str], type[OpSpec]]]
    """Finds an operator class by name; `OpRegistry.expanded` sets it."""

    @classmethod
    def meaning_of(cls, graph: Graph, weights: Arrays) -> str:
        """The attribute `meaning` for a concrete graph and its weights."""
        held = {
            name: [a.dtype.name, a.shape, base64.b64encode(a.tobytes()).decode()]
            for name, a in weights.items()
        }
        return json.dumps({"graph": graph.to_json(), "weights": held})

    @cached_property
    def _read(self) -> tuple[Graph, Arrays]:
        data = json.loads(self.meaning)
        weights = {
            name: np.frombuffer(base64.b64decode(text), DType(dtype).numpy).reshape(shape)
            for name, (dtype, shape, text) in data["weights"].items()
        }
        return Graph.from_json(data["graph"], type(self).lookup), weights

    @property
    def inner(self) -> Graph:
        """The graph of operators that computes the same as the nodes."""
        return self._read[0]

    @property
    def weights(self) -> Arrays:
        """The constants of `inner`, by name."""
        return self._read[1]

    def cost(self, *inputs: TensorType) -> int:
        return sum(n.op.cost(*self.inner.types(n.inputs)) for n in self.inner.nodes)

    def compose(self, apply: Apply, *values: Any) -> Sequence[Any]:
        floats = [x for x, type_ in zip(values, self.inner.types(self.inner.inputs))
                  if type_.dtype.is_float]  # fmt: skip
        known = dict(zip(self.inner.inputs, values))
        known |= {name: apply(_Held(a), *floats[:1]) for name, a in self.weights.items()}
        for node in self.inner.nodes:
            results = apply(node.op, *(known[name] for name in node.inputs))
            several = isinstance(results, list | tuple)
            known.update(zip(node.outputs, results if several else [results], strict=True))
        return [known[name] for name in self.inner.outputs]


class _Held(OpSpec):
    """A constant; a float constant takes the dtype of the input, if there is one."""

    name = "Held"

    def __init__(self, array: np.ndarray) -> None:
        self.array = array

    def torch(self, *like: Tensor) -> Tensor:
        from nnfuzz.operators import carriers

        held = carriers.tensor(self.array)
        return held.to(like[0].dtype) if like and held.is_floating_point() else held


def flat(graph: Graph, params: Arrays) -> tuple[Graph, Arrays]:
    """The graph with `Expanded` nodes replaced by their inner graphs, and its parameters with the
    inner constants. Inner values are named "OUTPUT/NAME" after the node's first output."""
    if not any(isinstance(node.op, Expanded) for node in graph.nodes):
        return graph, params
    whole = Graph(
        dict(graph.values), [], [*graph.inputs], [*graph.weights], [*graph.outputs],
        dict(graph.prescribed),
    )  # fmt: skip
    held = dict(params)
    for node in graph.nodes:
        if isinstance(node.op, Expanded):
            inner, weights = flat(node.op.inner, node.op.weights)
            names = dict(zip(inner.inputs, node.inputs)) | dict(zip(inner.outputs, node.outputs))
            names |= {n: f"{node.outputs[0]}/{n}" for n in inner.values if n not in names}
            whole.values |= {names[n]: Value(names[n], v.type) for n, v in inner.values.items()}
            whole.weights += [names[name] for name in inner.weights]
            held |= {names[name]: array for name, array in weights.items()}
            whole.nodes += [
                Node(n.op, tuple(names[i] for i in n.inputs), tuple(names[o] for o in n.outputs))
                for n in inner.nodes
            ]
        else:
            whole.nodes.append(node)
    return whole, held
