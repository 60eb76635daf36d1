"""The pass that tries newer opsets."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from nnfuzz.ir.dtypes import DType
from nnfuzz.ir.graph import Graph, Node, Value
from nnfuzz.ir.types import TensorType
from nnfuzz.operators.registry import OpRegistry
from nnfuzz.reduction.edit import ORDER
from nnfuzz.reduction.opsets import apply_opset, propose_opsets
from nnfuzz.reduction.subject import Subject

X = np.ones((2, 3), np.float32)


def subject(operator: str, **more) -> Subject:
    type_ = TensorType(DType.FLOAT32, (2, 3))
    values = {name: Value(name, type_) for name in "xy"}
    op = OpRegistry.load().get(operator)()
    return Subject(Graph(values, [Node(op, ("x",), ("y",))], ["x"], [], ["y"]), {"x": X}, **more)


def proposed(*given, **more) -> list[int]:
    return [edit.value for edit in propose_opsets(subject(*given, **more))]


def test_the_newest_opset_of_each_version_is_proposed_the_last_one_first():
    assert proposed("Acos", opset=15, newest=26) == [26, 21]
    assert proposed("Acos", opset=22, newest=26) == [26]
    assert proposed("Acos", opset=26, newest=26) == []


def test_opsets_that_were_given_or_that_the_exporter_lacks_are_not_proposed():
    assert proposed("Acos", opset=15) == []
    assert proposed("Acos", exporter="torchscript", opset=15, newest=26) == [20]


def test_a_newer_opset_is_simpler_and_another_candidate():
    old = subject("Acos", opset=15, newest=26)
    new = apply_opset(old, next(iter(propose_opsets(old))))
    assert new.opset == 26 and new.measure() < old.measure() and new.digest() != old.digest()
    assert replace(old, newest=0).measure()[-1] == 0


def test_newer_opsets_come_last():
    assert ORDER[-1] == "opsets"
