"""Passes of ONNX Runtime are counted by its log, rewrite rules one by one."""

from __future__ import annotations

import onnx
import pytest
from onnx import TensorProto, helper

pytest.importorskip("onnxruntime")

from backends.onnxruntime import OnnxRuntime
from scripts.check.passes import changed, rules, symbolic


def _model(*nodes: onnx.NodeProto, size: int | str = 2) -> bytes:
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [size]) for name in "xy"]
    graph = helper.make_graph(nodes, "g", ends[:1], ends[1:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    return model.SerializeToString()


IDENTITY = _model(
    helper.make_node("Sigmoid", ["x"], ["a"]),
    helper.make_node("Identity", ["a"], ["b"]),
    helper.make_node("Sigmoid", ["b"], ["y"]),
)


def test_the_one_rule_that_changes_a_model_is_named():
    names = changed(IDENTITY, 0, ())
    assert "Level1_RuleBasedTransformer: EliminateIdentity" in names
    assert "Level1_RuleBasedTransformer: NoopElimination" not in names


def test_settled_rules_are_not_asked_again():
    name, transformer = "EliminateIdentity", "Level1_RuleBasedTransformer"
    settled = {f"{transformer}: {name}"}
    assert not list(rules(OnnxRuntime(), IDENTITY, "O3", transformer, settled))


def test_symbolic_dimensions_get_a_size_and_are_fixed():
    model = _model(helper.make_node("Relu", ["x"], ["y"]), size="n")
    assert symbolic(model) == {"n": 2}
    logged = OnnxRuntime().logged(model, "O3+free_dimensions=given", sizes={"n": 2})[1]
    assert ("FreeDimensionOverrideTransformer", "1") in logged
