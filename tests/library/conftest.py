"""Small test cases of float32, a model of others, and a registry that forgets."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import numpy_helper, parser

import nnfuzz
from nnfuzz.library import plugins

TEXT = """
<ir_version: 8, opset_import: ["" : 17]>
mine (float[batch, 4] data, int64[2] unused) => (float[batch, 3] probabilities)
{
    hidden = MatMul(data, kernel)
    logits = Add(hidden, bias)
    probabilities = Softmax(logits)
}
"""


@pytest.fixture
def model() -> onnx.ModelProto:
    made = parser.parse_model(TEXT)
    kernel = np.arange(12, dtype=np.float32).reshape(4, 3) / 10
    for name, array in (("kernel", kernel), ("bias", np.float32([0.5, 0, 1]))):
        made.graph.initializer.append(numpy_helper.from_array(array, name))
    return made


@pytest.fixture(scope="session")
def cases():
    operators = ["Add", "Mul", "Relu", "Sub"]
    return nnfuzz.Generator(seed=7, nodes=3, dtypes=["float32"], operators=operators)


@pytest.fixture
def registered(monkeypatch):
    """What a test registers is gone after it."""
    kept: dict[str, str] = {}
    monkeypatch.setattr(plugins, "_registered", kept)
    return kept
