"""Pairs around operators: where they stand, and what their parameters are."""

from __future__ import annotations

import numpy as np

from nnfuzz.ir.dtypes import DType
from nnfuzz.vary.quantize.codes import Values
from nnfuzz.vary.quantize.pairs import with_pairs
from tests.inputs.graphs import op
from tests.vary.quantize.test_integers import conv, matmul, of
from tests.vary.quantize.writing import near, operators, written


def constant(values: Values, name: str) -> np.ndarray:
    return values.draft.values[name].numpy()


def test_pairs_stand_around_an_operator():
    found = written(matmul(), with_pairs, range(30))
    assert len(found) == 30
    shapes = {"".join(name[0] for name in operators(values)) for values in found}
    assert "QDDMQD" in shapes and len(shapes) > 3  # Quantize, Dequantize of x and of w, MatMul
    assert near(found, matmul())


def test_a_bias_has_the_product_of_the_scales():
    biases = 0
    for values in written(conv(), with_pairs, range(60)):
        draft, scales = values.draft, {}
        for node in draft.graph.nodes:
            if node.op.name == "DequantizeLinear":
                scales[node.inputs[0]] = constant(values, node.inputs[1])
        whole = [n for n in scales if draft.graph.type(n).dtype is DType.INT32]
        x = [n for n in scales if n.startswith("x_q")]
        w = [n for n in scales if n.startswith("w_q")]
        if whole and len(x) == len(w) == 1:
            expected = scales[x[0]] * scales[w[0]]
            ratio = np.unique(scales[whole[0]] / expected)
            assert set(ratio) <= {np.float32(1), np.float32(2)}
            biases += 1
    assert biases > 10


def test_weights_have_scales_of_every_granularity():
    ranks = set()
    for values in written(matmul(), with_pairs, range(60)):
        for node in values.draft.graph.nodes:
            if node.inputs[0].startswith("w_q") and "Dequantize" in node.op.name:
                ranks.add((node.op.name, constant(values, node.inputs[1]).ndim))
    assert ranks == {
        ("DequantizeLinear", 0),
        ("DequantizeLinear", 1),
        ("BlockDequantizeLinear", 2),
    }


def test_what_moves_elements_keeps_their_grid():
    graph = of(op("Transpose", perm=(0, 2, 3, 1)), "x")
    same = 0
    for values in written(graph, with_pairs, range(40)):
        read = [n.inputs[1] for n in values.draft.graph.nodes if n.op.name == "QuantizeLinear"]
        same += len(read) > len(set(read))
    assert 10 < same < 40
