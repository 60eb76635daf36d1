"""Reduction keeps the operator at which a wrong result begins, and makes valid models alone."""

from __future__ import annotations

import numpy as np
import pytest

from nnfuzz.ir.dtypes import DType
from nnfuzz.ir.graph import Graph, Node, Value
from nnfuzz.ir.types import TensorType
from nnfuzz.ir.view import NodeView
from nnfuzz.reduction.culprit import _is_of
from nnfuzz.testcase.case import TestCase
from nnfuzz.testcase.identity import Numbered
from tests.reduction.test_diagnosis import bench, reduced

__all__ = ["bench"]


def two_causes(producer, first, second) -> TestCase:
    """A model with LogSoftmax along axis 0 and MatMul, each of an input of its own. first, second:
    the outputs, in the order in which they are computed.
    """
    registry, rng = producer.registry, np.random.default_rng(0)
    arrays = {name: rng.random((3, 3)).astype(np.float32) * 4 for name in "ab"}
    nodes = {
        "s": Node(registry.get("LogSoftmax")(axis=0), ("a",), ("s",)),
        "m": Node(registry.get("MatMul")(), ("a", "b"), ("m",)),
    }
    values = {name: Value(name, TensorType(DType.FLOAT32, (3, 3))) for name in "absm"}
    graph = Graph(values, [nodes[first], nodes[second]], ["a", "b"], [], [first, second])
    return producer.expose(
        TestCase(Numbered(0, 0), graph.view(), b"", arrays, {}, {}, "direct", 20)
    )


@pytest.mark.parametrize("order, operator", [("sm", "LogSoftmax"), ("ms", "MatMul")])
def test_a_reduction_keeps_the_operator_whose_result_is_wrong_first(bench, order, operator):
    finding, _ = reduced(bench, two_causes(bench[2], *order))
    assert finding.case.graph.operators == (operator,)


def test_a_mode_and_what_a_body_holds_stand_for_an_operator():
    body = {"body": {"steps": [{"op": {"name": "Softmax"}}]}}
    assert _is_of(NodeView("Loop", attributes=body), "Softmax")
    assert _is_of(NodeView("RoiAlignMax"), "RoiAlign")
    assert not _is_of(NodeView("Loop", attributes=body), "Soft")
    assert not _is_of(NodeView("ArgMax"), "Max")
