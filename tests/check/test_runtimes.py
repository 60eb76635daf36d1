"""Reference implementations of ONNX as runtimes."""

import numpy as np
import pytest
from onnx import TensorProto, helper

from nnfuzz.check.runtimes import Unavailable, run_body, run_reference

X = np.array([-1.0, 0.0, 2.0], np.float32)


def model(operator):
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [3]) for name in ("x0", "y0")]
    node = helper.make_node(operator, ["x0"], ["y0"])
    graph = helper.make_graph([node], "one", ends[:1], ends[1:])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)])


def test_the_evaluator_computes():
    (found,) = run_reference(model("Neg"), [X])
    np.testing.assert_array_equal(found, -X)


def test_whatever_the_evaluator_raises_means_that_it_cannot():
    with pytest.raises(Unavailable):
        run_reference(model("Squirt"), [X])


def test_bodies_of_functions_compute():
    (found,) = run_body(model("Softsign"), [X])
    np.testing.assert_allclose(found, X / (1 + abs(X)), rtol=1e-6)
    with pytest.raises(Unavailable, match="defined by a function"):
        run_body(model("Neg"), [X])
