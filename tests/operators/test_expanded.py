"""Operators that are computed by plain nodes."""

from __future__ import annotations

import numpy as np
import onnx

from nnfuzz.materialize.importing import import_onnx
from nnfuzz.operators.expanded import flat
from tests.materialize.test_expansion import CHOOSING, REGISTRY


def test_only_the_branch_of_a_known_condition_counts():
    model = onnx.ModelProto()
    model.CopyFrom(CHOOSING)
    del model.graph.input[1:]
    model.graph.initializer.append(onnx.numpy_helper.from_array(np.array(False), "c"))
    graph = import_onnx(model, REGISTRY, 20).graph
    whole, _ = flat(graph, {})
    assert [node.op.name for node in whole.nodes if node.op.name != "Identity"] == [
        "Gather",
        "Relu",
    ]
