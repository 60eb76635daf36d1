"""Small models for the tests of mining."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

FLOAT = TensorProto.FLOAT


def model(nodes, inputs, outputs, weights=(), **more) -> onnx.ModelProto:
    """A model of nodes; inputs and outputs map names to shapes."""
    given = [helper.make_tensor_value_info(n, FLOAT, s) for n, s in inputs.items()]
    taken = [helper.make_tensor_value_info(n, FLOAT, s) for n, s in outputs.items()]
    arrays = [numpy_helper.from_array(a, n) for n, a in dict(weights).items()]
    graph = helper.make_graph(nodes, "g", given, taken, arrays)
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("own", 1)]
    return helper.make_model(graph, opset_imports=opsets, **more)


def attention(heads: int = 4, size: int = 8, batch: int = 2) -> onnx.ModelProto:
    """Heads are split off, transposed, and scaled by a constant."""
    shape = np.array([batch, 5, heads, size], np.int64)
    return model(
        [
            helper.make_node("Reshape", ["x", "shape"], ["a"]),
            helper.make_node("Transpose", ["a"], ["b"], perm=[0, 2, 1, 3]),
            helper.make_node("Mul", ["b", "scale"], ["c"]),
            helper.make_node("Softmax", ["c"], ["y"], axis=-1),
        ],
        {"x": [batch, 5, heads * size]},
        {"y": [batch, heads, 5, size]},
        {"shape": shape, "scale": np.float32(0.25)},
    )


def save(made: onnx.ModelProto, file: Path) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(made.SerializeToString())
    return file
