"""What a wrong element was computed from is read in inputs and constants."""

from types import SimpleNamespace

import numpy as np
from onnx import parser

from nnfuzz.triage.mismatch import largest_operand

TEXT = """<ir_version: 8, opset_import: ["" : 13]>
g (int64[2] x) => (int64[2] y) <int64[1] b = {1099511627776}> { y = Max (x, b) }"""


def test_the_largest_finite_float_that_is_read():
    def largest(*x):
        graph = SimpleNamespace(nodes=[SimpleNamespace(inputs=("x",))])
        model = parser.parse_model(TEXT).SerializeToString()
        return largest_operand(SimpleNamespace(graph=graph, model=model, inputs={"x": np.array(x)}))

    assert (largest(1.0, -7.5, np.inf, np.nan), largest(1, 2)) == (7.5, 0)
