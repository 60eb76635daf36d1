"""Models that cannot be made static."""

from __future__ import annotations

import pytest
from onnx import parser

from nnfuzz.materialize.importing import import_onnx
from nnfuzz.materialize.static import OnnxImportError
from tests.materialize.test_importing import REGISTRY, read


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("m (string[2] x) => (string[2] y) { y = Identity(x) }", "dtype that nnfuzz does not know"),
        ("m (float[2] x) => (int64[1, N] y) { y = NonZero(x) }", "y is not known before it runs"),
        ("m (float[2] x) => (seq(float[2]) y) { y = SequenceConstruct(x) }", "y is no tensor"),
        ("m (float[4096, 4096] x) => (float[M, N] y) { y = Relu(x) }", "more than"),
    ],
)
def test_what_cannot_be_read_says_why(text, reason):
    with pytest.raises(OnnxImportError, match=reason):
        read(text)


def test_what_cannot_be_taken_is_cut_out():
    model = parser.parse_model(
        """<ir_version: 9, opset_import: ["" : 20, "mine" : 1]>
        m (float[2, 3] x) => (float[2, 3] y) <float[2, 3] b> {
            a = Relu(x)
            b = mine.Unheard(a)
            y = Tanh(b)
        }"""
    )
    imported = import_onnx(model, REGISTRY, 20)
    assert [node.op.name for node in imported.graph.nodes] == ["Relu", "Tanh"]
    assert len(imported.graph.inputs) == len(imported.graph.outputs) == 2
    assert [kind for kind, _ in imported.lost] == ["Unheard"]
