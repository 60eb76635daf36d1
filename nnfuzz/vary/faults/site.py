"""The model into which a fault is put, and the contract of kinds of faults."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import onnx
from onnx import ModelProto, NodeProto, TensorProto, ValueInfoProto, helper, numpy_helper

T = TypeVar("T")


class NoPlace(Exception):
    """A fault does not apply anywhere in a model."""


@dataclass
class Site:
    """A private copy of a valid model with its inputs, into which a maker puts one fault.

    operator: of the node with the fault. valid: the model without the fault, and its inputs, if
    `keep_valid` recorded them.
    """

    model: ModelProto
    inputs: dict[str, np.ndarray]
    rng: random.Random
    operator: str = ""
    valid: tuple[bytes, dict[str, np.ndarray]] | None = None

    def keep_valid(self) -> None:
        """Record the present model as the valid one, which is run for comparison.

        It has the features that the fault needs, so a compiler that lacks them refuses both models.
        """
        self.valid = self.model.SerializeToString(deterministic=True), dict(self.inputs)

    @property
    def graph(self) -> onnx.GraphProto:
        return self.model.graph

    @property
    def nodes(self) -> Sequence[NodeProto]:
        return self.graph.node

    def choice(self, options: Sequence[T]) -> T:
        """A random item. Raises: NoPlace if there is none."""
        if not options:
            raise NoPlace
        return self.rng.choice(options)

    def shuffled(self, options: Sequence[T]) -> list[T]:
        return self.rng.sample(list(options), len(options))

    @property
    def opset(self) -> int:
        """Version of the default operator set."""
        return next((o.version for o in self.model.opset_import if not o.domain), 0)

    def known(self) -> Iterator[tuple[NodeProto, onnx.defs.OpSchema]]:
        """Nodes with standard operators, and their schemas, in random order."""
        for node in self.shuffled(self.nodes):
            name, opset = node.op_type, self.opset
            if node.domain in ("", "ai.onnx") and onnx.defs.has(name, opset, ""):
                yield node, onnx.defs.get_schema(name, opset, "")

    # -- values -------------------------------------------------------------------------------

    def weight(self, name: str) -> TensorProto | None:
        """The initializer of a name; None if there is none."""
        return next((t for t in self.graph.initializer if t.name == name), None)

    def array(self, name: str) -> np.ndarray | None:
        """The value of an input or initializer; None for a computed value."""
        if name in self.inputs:
            return self.inputs[name]
        tensor = self.weight(name)
        return None if tensor is None else numpy_helper.to_array(tensor)

    def declared(self, name: str) -> ValueInfoProto | None:
        """The declaration of a graph input; None if there is none."""
        return next((value for value in self.graph.input if value.name == name), None)

    def uses(self, name: str) -> int:
        """Number of times that a value is read, also in sub-graphs, or returned."""
        return _uses(self.graph, name)

    def put(self, name: str, array: np.ndarray) -> None:
        """Replace the value, dtype and shape of an input or initializer."""
        tensor, value = self.weight(name), self.declared(name)
        if tensor is not None:
            tensor.CopyFrom(numpy_helper.from_array(array, name))
        if value is not None:
            type_ = helper.np_dtype_to_tensor_dtype(array.dtype)
            value.CopyFrom(helper.make_tensor_value_info(name, type_, array.shape))
        if name in self.inputs:
            self.inputs[name] = array

    def fix(self, name: str) -> bool:
        """Turn a graph input into an initializer, so that its value belongs to the model.

        Returns whether the name is an initializer now.
        """
        value = self.declared(name)
        if value is not None and name in self.inputs:
            self.graph.initializer.append(numpy_helper.from_array(self.inputs.pop(name), name))
            self.graph.input.remove(value)
        return self.weight(name) is not None

    def some_weight(
        self, takes: Callable[[np.ndarray], bool] = lambda a: a.size > 0
    ) -> TensorProto:
        """A random initializer of plain numbers; if there is none, an input is turned into one.

        Raises: NoPlace if there is neither.
        """
        names = [t.name for t in self.graph.initializer] or list(self.inputs)
        for name in self.shuffled(names):
            array = self.array(name)
            plain = array is not None and array.dtype.kind in "fiu" and takes(array)
            if plain and self.fix(name) and (found := self.weight(name)) is not None:
                return found
        raise NoPlace

    def at(self, node: NodeProto) -> str:
        """Record a node as the one with the fault; returns its operator."""
        self.operator = str(node.op_type)
        return self.operator


def _uses(graph: onnx.GraphProto, name: str) -> int:
    count = sum(output.name == name for output in graph.output)
    for node in graph.node:
        count += list(node.input).count(name)
        count += sum(_uses(body, name) for a in node.attribute for body in (a.g, *a.graphs))
    return count


Make = Callable[[Site], str]
"""Puts the fault into a model and returns a sentence that describes it. Raises: NoPlace."""
Carries = Callable[[onnx.defs.OpSchema], bool]


@dataclass(frozen=True)
class Kind:
    """A kind of fault. text: description for people. carries: whether the fault applies to an
    operator; None if it applies to any, or does not concern operators."""

    name: str
    clause: str
    text: str
    make: Make
    carries: Carries | None = None


def kind(clause: str, carries: Carries | None = None) -> Callable[[Make], Kind]:
    """Turns a function into a kind of fault; its name is the kind's, its docstring the text."""

    def made(make: Make) -> Kind:
        text = " ".join((make.__doc__ or "").split("\n\n")[0].split())
        return Kind(make.__name__.replace("_", "-"), clause, text, make, carries)

    return made
