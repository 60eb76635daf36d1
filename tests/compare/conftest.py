from __future__ import annotations

import numpy as np
import pytest

from nnfuzz.ir.dtypes import DType
from nnfuzz.ir.graph import Graph, Node, Value
from nnfuzz.ir.types import TensorType
from nnfuzz.operators.registry import OpRegistry


class Builder:
    """Adds nodes to a graph whose inputs are given as arrays."""

    def __init__(self, registry: OpRegistry, **inputs: np.ndarray) -> None:
        self.registry = registry
        self.params = {name: np.asarray(array) for name, array in inputs.items()}
        self.graph = Graph(inputs=list(inputs))
        for name, array in self.params.items():
            type_ = TensorType(DType.of(array.dtype), array.shape)
            self.graph.values[name] = Value(name, type_)

    def add(self, op: str, *inputs: str, **attributes) -> str:
        """Append a node and return the name of its first output."""
        spec = self.registry.get(op)(**attributes)
        types = spec.type_transfer(*self.graph.types(inputs))
        names = tuple(f"v{len(self.graph.nodes)}_{i}" for i in range(len(types)))
        self.graph.nodes.append(Node(spec, inputs, names))
        self.graph.values.update({n: Value(n, t) for n, t in zip(names, types)})
        return names[0]

    def done(self, *outputs: str) -> tuple[Graph, dict[str, np.ndarray]]:
        self.graph.outputs = list(outputs)
        self.graph.verify()
        return self.graph, self.params


@pytest.fixture(scope="session")
def registry() -> OpRegistry:
    return OpRegistry.load()


@pytest.fixture
def build(registry):
    """Makes a Builder: `build(x=array)`."""
    return lambda **inputs: Builder(registry, **inputs)


@pytest.fixture
def case(build):
    """y = exp(x) * x over a few elements; graph, params, PyTorch-like outputs."""
    x = np.linspace(-2, 2, 12, dtype=np.float32).reshape(3, 4)
    b = build(x=x)
    name = b.add("Mul", b.add("Exp", "x"), "x")
    graph, params = b.done(name)
    return graph, params, {name: (np.exp(x) * x).astype(np.float32)}
