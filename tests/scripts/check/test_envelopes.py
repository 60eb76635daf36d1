"""The report on widths runs, and blames the operator that rounds."""

from __future__ import annotations

import sys

import numpy as np

from nnfuzz.compare.envelope import envelopes
from nnfuzz.compare.reference import reference
from nnfuzz.ir.dtypes import DType
from nnfuzz.ir.graph import Graph, Node, Value
from nnfuzz.ir.types import TensorType
from nnfuzz.operators.registry import OpRegistry
from scripts.check import envelopes as widths


def test_the_report(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["envelopes", "--models", "6", "--causes"])
    assert widths.main() == 0
    assert "float32" in capsys.readouterr().out


def test_the_operator_that_rounds_most_is_to_blame():
    registry, type_ = OpRegistry.load(), TensorType(DType.FLOAT32, (8,))
    nodes = [
        Node(registry.get("Sigmoid")(), ("x",), ("a",)),
        Node(registry.get("Neg")(), ("a",), ("b",)),
        Node(registry.get("Add")(), ("b", "b"), ("y",)),
    ]
    graph = Graph({n: Value(n, type_) for n in "xaby"}, nodes, ["x"], [], ["y"])
    params = {"x": np.linspace(-2, 2, 8, dtype=np.float32)}
    values, found = reference(graph, params), envelopes(graph, params)
    assert list(widths.blamed(graph, values, found)) == ["float32 Sigmoid"]
