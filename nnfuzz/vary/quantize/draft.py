"""A quantised twin under construction: every node is computed as soon as it is added."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from torch import Tensor

from nnfuzz.generate.catalog import Catalog
from nnfuzz.inputs.program import Program
from nnfuzz.ir.dtypes import DType
from nnfuzz.ir.graph import Graph, Node, Value
from nnfuzz.ir.types import TensorType
from nnfuzz.operators.carriers import tensor
from nnfuzz.operators.motif import Misfit
from nnfuzz.operators.operator import OpSpec


@dataclass(frozen=True)
class Form:
    """The operators that a twin may have: those of a catalog that an exporter writes at an opset.

    avoid: edges (nnfuzz.ir.support_key) that the graph must not have.
    """

    catalog: Catalog
    exporter: str
    opset: int
    avoid: frozenset[str] = frozenset()


@dataclass
class Draft:
    """A graph under construction, with a tensor for each value."""

    form: Form
    graph: Graph = field(default_factory=Graph)
    values: dict[str, Tensor] = field(default_factory=dict)

    def constant(self, array: np.ndarray, stem: str) -> str:
        """The name of a new weight, whose elements and their range an array gives."""
        name = self.fresh(stem)
        type_ = TensorType(DType.of(array.dtype), array.shape)
        self.graph.values[name] = Value(name, type_)
        self.graph.weights.append(name)
        self.values[name] = tensor(array)
        wide = array.astype(np.float64)
        self.graph.prescribed[name] = float(wide.min()), float(wide.max())
        return name

    def fresh(self, stem: str) -> str:
        """An unused name, such as "v3_q", or "v3_q1" if that is taken."""
        name, count = stem, 0
        while name in self.graph.values:
            count += 1
            name = f"{stem}{count}"
        return name

    def call(self, name: str, *inputs: str, stem: str, **attributes: Any) -> tuple[str, ...]:
        """Add an operator by its name; returns its outputs. Raises: Misfit if it is not
        admitted."""
        spec = self.form.catalog.find(name)
        if spec is None:
            raise Misfit(f"no {name} here")
        own = {key: value for key, value in attributes.items() if key in spec.declared}
        return self.add(spec(**own), inputs, stem)

    def add(self, op: OpSpec, inputs: Sequence[str], stem: str) -> tuple[str, ...]:
        """Add a node; returns its outputs. Raises: Misfit if it is not admitted."""
        types = self.graph.types(inputs)
        outputs = _types(op, types)
        self._admit(op, types, outputs[0].dtype)
        names: list[str] = []
        for type_ in outputs:
            names.append(self.fresh(stem))
            self.graph.values[names[-1]] = Value(names[-1], type_)
        self.compute(Node(op, tuple(inputs), tuple(names)))
        return tuple(names)

    def copy(self, node: Node, inputs: Sequence[str]) -> None:
        """Add a node of the original with other inputs. Raises: Misfit if they are not valid."""
        outputs = _types(node.op, self.graph.types(inputs))
        self.graph.values.update({n: Value(n, t) for n, t in zip(node.outputs, outputs)})
        self.compute(Node(node.op, tuple(inputs), node.outputs))

    def compute(self, node: Node) -> None:
        """Add a node and compute its outputs. Raises: Misfit if these are not valid."""
        names = (*node.inputs, *node.outputs)
        alone = Graph({name: self.graph.values[name] for name in names}, [node])
        values = {name: self.values[name] for name in node.inputs}
        if (violation := Program(alone).run(values)) is not None:
            raise Misfit(f"{node!r} is {violation.cause.value}")
        self.values |= values
        self.graph.nodes.append(node)

    def _admit(self, op: OpSpec, types: Sequence[TensorType], output: DType) -> None:
        """Raises: Misfit if the catalog lacks the signature, or the exporter cannot write it."""
        spec, form = type(op), self.form
        if form.catalog.find(op.name) is not spec:
            raise Misfit(f"no {op.name} here")
        binding = {p.var: t.dtype for p, t in zip(spec.patterns(len(types)), types)}
        if not form.catalog.admits(spec, binding, output):
            raise Misfit(f"{op.name} is not for {[t.dtype.value for t in types]}")
        if why := op.refusal(form.exporter, form.opset, *types):
            raise Misfit(why)


def _types(op: OpSpec, inputs: list[TensorType]) -> list[TensorType]:
    """The output types. Raises: Misfit if the operator does not admit the input types."""
    try:
        op.check(*inputs)
    except ValueError as error:
        raise Misfit(str(error)) from error
    return op.type_transfer(*inputs)
