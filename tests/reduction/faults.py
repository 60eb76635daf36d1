"""Models of one operator for the backend of wrong_elements.py, each with a planted fault."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from nnfuzz.ir.dtypes import DType
from nnfuzz.ir.graph import Graph, Node, Value
from nnfuzz.ir.types import TensorType
from nnfuzz.testcase.case import TestCase
from nnfuzz.testcase.identity import Numbered
from nnfuzz.testcase.producer import Producer

PLUGIN = Path(__file__).parent / "wrong_elements.py"
MAGIC = 77
"""As in the plug-in."""


@dataclass(frozen=True)
class Fault:
    """op: of ours, which ONNX calls the same. operands: (dtype, shape). least: elements of all
    values of the smallest model that fails.
    """

    op: str
    rule: str
    operands: tuple[tuple[str, tuple[int, ...]], ...]
    least: int
    attributes: Mapping[str, Any] = field(default_factory=dict)

    @property
    def options(self) -> dict[str, str]:
        """Of the backend."""
        return {"op": self.op, "rule": self.rule}

    def case(self, producer: Producer) -> TestCase:
        """One operator on random numbers, one of which is what the rule depends on."""
        op = producer.registry.get(self.op)(**self.attributes)
        types = [TensorType(DType(dtype), shape) for dtype, shape in self.operands]
        names = [f"x{i}" for i in range(len(types))]
        arrays = dict(zip(names, self._arrays(types), strict=True))
        values = zip([*names, "y"], [*types, *op.type_transfer(*types)], strict=True)
        node = Node(op, tuple(names), ("y",))
        graph = Graph({n: Value(n, t) for n, t in values}, [node], names, [], ["y"])
        case = TestCase(Numbered(0, 0), graph.view(), b"", arrays, {}, {}, "direct", 20)
        return producer.expose(case)

    def _arrays(self, types: list[TensorType]) -> list[np.ndarray]:
        """No two operands have an element in common but where the rule wants it."""
        rng = np.random.default_rng(5)
        numbers = [3 * np.round(3 * rng.normal(size=t.shape)) + i for i, t in enumerate(types)]
        if types[0].dtype.is_float:
            numbers = [array + rng.random(array.shape) / 2 for array in numbers]
        for i in {"second_magic": (1,), "equal": (0, 1), "both_magic": (0, 1)}.get(self.rule, (0,)):
            at = tuple(
                min(k, n - 1) for k, n in zip((4, 3, 2)[-numbers[i].ndim :], numbers[i].shape)
            )
            numbers[i][at] = MAGIC
        return [a.astype(t.dtype.numpy) for a, t in zip(numbers, types, strict=True)]


def _pair(dtype: str, *shapes: tuple[int, ...]) -> tuple[tuple[str, tuple[int, ...]], ...]:
    return tuple((dtype, shape) for shape in shapes)


LAST = {"axis": 1, "keepdims": False}
FAULTS = (
    Fault("Greater", "equal", _pair("int64", (7, 6, 11), (7, 1, 11)), 2),
    Fault("GreaterOrEqual", "magic", _pair("int64", (467,), (1,)), 2),
    Fault("Mul", "second_magic", _pair("float32", (32, 14), (32, 1)), 3),
    Fault("Mul", "both_magic", _pair("float32", (9, 8, 7), (8, 7)), 2),
    Fault("Mul", "wide", _pair("float32", (3, 40), (40,)), 32),
    Fault("Mul", "many", _pair("float32", (13, 11, 5), (5,)), 29),
    Fault("Mul", "high_and_wide", _pair("float32", (21, 13), (13,)), 18),
    Fault("Abs", "magic", _pair("float32", (11, 12, 3)), 2),
    Fault("Tanh", "tail", _pair("float32", (5, 6, 7, 2)), 18),
    Fault("ArgMax", "magic", _pair("float32", (5, 25, 3)), 2, LAST),
    Fault("Softmax", "wide", _pair("float32", (6, 19)), 32, {"axis": 1}),
    Fault("MatMul", "blocks", _pair("float32", (9, 21), (21, 8)), 35),
    Fault("Transpose", "tail", _pair("float32", (7, 5, 9)), 18, {"perm": (2, 0, 1)}),
)


def elements(case: TestCase) -> int:
    """Of all inputs, weights and computed values."""
    return sum(int(np.prod(shape)) for shape in case.graph.shapes.values())
