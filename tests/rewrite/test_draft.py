"""A model while it is rewritten."""

from __future__ import annotations

import onnx
from onnx import helper

from nnfuzz.rewrite.draft import Draft


def test_nodes_of_a_function_have_names_of_their_own():
    """A function that is inlined gives its nodes' names to the graph."""
    inside = [helper.make_node("Relu", ["x"], ["y"], name="n") for _ in range(2)]
    model = onnx.ModelProto(functions=[onnx.FunctionProto(node=inside)])
    (function,) = Draft(model).model.functions
    assert [node.name for node in function.node] == ["n", "n_2"]
