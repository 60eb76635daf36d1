"""A twin while it is made: nodes that are computed as soon as they are added."""

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
    """What may be written: the operators of a catalog, by an exporter at an opset.

    avoid: edges (nnfuzz.ir.support_key) that no graph shall have.
    """

    catalog: Catalog
    exporter: str
    opset: int
    avoid: frozenset[str] = frozenset()


@dataclass
class Draft:
    """A graph with a value for each of its names. What nothing reads in the end is left out."""

    form: Form
    graph: Graph = field(default_factory=Graph)
    values: dict[str, Tensor] = field(default_factory=dict)

    def constant(self, array: np.ndarray, stem: str) -> str:
        """A new weight with the elements of an array; their range is prescribed."""
        name = self.fresh(stem)
        type_ = TensorType(DType.of(array.dtype), array.shape)
        self.graph.values[name] = Value(name, type_)
        self.graph.weights.append(name)
        self.values[name] = tensor(array)
        wide = array.astype(np.float64)
        self.graph.prescribed[name] = float(wide.min()), float(wide.max())
        return name

    def fresh(self, stem: str) -> str:
        """A name that no value has, such as "v3_q"; "v3_q1" if there is one."""
        name, count = stem, 0
        while name in self.graph.values:
            count += 1
            name = f"{stem}{count}"
        return name

    def call(self, name: str, *inputs: str, stem: str, **attributes: Any) -> tuple[str, ...]:
        """The outputs of a new operator. Raises: Misfit if it is not to be used here."""
        spec = self.form.catalog.find(name)
        if spec is None:
            raise Misfit(f"no {name} here")
        own = {key: value for key, value in attributes.items() if key in spec.declared}
        return self.add(spec(**own), inputs, stem)

    def add(self, op: OpSpec, inputs: Sequence[str], stem: str) -> tuple[str, ...]:
        """`call` for an operator with its attributes. Raises: Misfit."""
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
        """A node of the original with other inputs. Raises: Misfit if they are outside of its
        domain.
        """
        outputs = _types(node.op, self.graph.types(inputs))
        self.graph.values.update({n: Value(n, t) for n, t in zip(node.outputs, outputs)})
        self.compute(Node(node.op, tuple(inputs), node.outputs))

    def compute(self, node: Node) -> None:
        """Adds a node with the values of its outputs. Raises: Misfit if they are not valid."""
        names = (*node.inputs, *node.outputs)
        alone = Graph({name: self.graph.values[name] for name in names}, [node])
        values = {name: self.values[name] for name in node.inputs}
        if (violation := Program(alone).run(values)) is not None:
            raise Misfit(f"{node!r} is {violation.cause.value}")
        self.values |= values
        self.graph.nodes.append(node)

    def _admit(self, op: OpSpec, types: Sequence[TensorType], output: DType) -> None:
        """Raises: Misfit if the catalog has no such signature, or the exporter cannot write it."""
        spec, form = type(op), self.form
        if form.catalog.find(op.name) is not spec:
            raise Misfit(f"no {op.name} here")
        binding = {p.var: t.dtype for p, t in zip(spec.patterns(len(types)), types)}
        if not form.catalog.admits(spec, binding, output):
            raise Misfit(f"{op.name} is not for {[t.dtype.value for t in types]}")
        if why := op.refusal(form.exporter, form.opset, *types):
            raise Misfit(why)


def _types(op: OpSpec, inputs: list[TensorType]) -> list[TensorType]:
    """Raises: Misfit if the operator does not admit inputs of these types."""
    try:
        op.check(*inputs)
    except ValueError as error:
        raise Misfit(str(error)) from error
    return op.type_transfer(*inputs)
