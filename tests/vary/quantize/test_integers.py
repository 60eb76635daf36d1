"""Operators on integers compute what the operators on floats do, up to the grid."""

from __future__ import annotations

import pytest

from nnfuzz.ir.dtypes import DType
from nnfuzz.ir.graph import Graph
from nnfuzz.ir.types import TensorType
from nnfuzz.operators.operator import OpSpec
from nnfuzz.vary.quantize.integers import dynamically, on_codes
from tests.inputs.graphs import build, op
from tests.vary.quantize.writing import form, near, operators, written

IMAGE = TensorType(DType.FLOAT32, (1, 4, 6, 6))
WINDOW = {"strides": (1, 1), "auto_pad": "NOTSET", "pads": (1, 1, 1, 1)}


def conv() -> Graph:
    types = {"x": IMAGE, "w": IMAGE.with_shape((3, 4, 3, 3)), "b": IMAGE.with_shape((3,))}
    spec = op("Conv", **WINDOW, group=1, dilations=(1, 1))
    return build(types, [("y", spec, ("x", "w", "b"))], ("w", "b"))


def matmul() -> Graph:
    types = {"x": IMAGE.with_shape((5, 8)), "w": IMAGE.with_shape((8, 3))}
    return build(types, [("y", op("MatMul"), ("x", "w"))], ("w",))


def gemm(*biases: str, **changes: float) -> Graph:
    given = {"alpha": 1.0, "beta": 1.0, "transA": 0, "transB": 1, **changes}
    types = {"x": IMAGE.with_shape((5, 8)), "w": IMAGE.with_shape((3, 8))}
    types |= {name: IMAGE.with_shape((3,)) for name in biases}
    return build(types, [("y", op("Gemm", **given), tuple(types))], ("w", *biases))


def of(spec: OpSpec, *names: str) -> Graph:
    return build(dict.fromkeys(names, IMAGE), [("y", spec, names)])


@pytest.mark.parametrize(
    ("graph", "kind"),
    [
        (conv(), "QLinearConv"),
        (matmul(), "QLinearMatMul"),
        (gemm(), "com.microsoft.QGemm"),
        (gemm("b", transB=1), "com.microsoft.QGemm"),
        (of(op("Add"), "a", "b"), "com.microsoft.QLinearAdd"),
        (of(op("Concat", axis=1), "a", "b"), "com.microsoft.QLinearConcat"),
        (of(op("Sigmoid"), "x"), "com.microsoft.QLinearSigmoid"),
        (of(op("Softmax", axis=1), "x"), "com.microsoft.QLinearSoftmax"),
        (of(op("Transpose", perm=(0, 2, 3, 1)), "x"), "Transpose"),
    ],
    ids=lambda case: case if isinstance(case, str) else "",
)
def test_the_operator_on_codes_is_near_the_one_on_floats(graph, kind):
    found = written(graph, on_codes, range(12))
    assert found and all(kind in operators(values) for values in found)
    assert near(found, graph)


@pytest.mark.parametrize(
    ("graph", "kind"),
    [(conv(), "ConvInteger"), (matmul(), "MatMulInteger")],
    ids=("conv", "matmul"),
)
def test_dynamic_quantisation_is_near_the_floats(graph, kind):
    found = written(graph, dynamically, range(12))
    assert found and all(kind in operators(values) for values in found)
    assert near(found, graph)


def test_what_has_no_version_on_codes_is_left_to_other_forms():
    graph = of(op("Tanh"), "x")
    assert written(graph, on_codes, range(3)) == written(graph, dynamically, range(3)) == []
    assert written(gemm(alpha=2.0), on_codes, range(3)) == []


def test_refused_signatures_are_not_used():
    key = "DynamicQuantizeLinear(float32)->uint8"
    assert written(matmul(), dynamically, range(3), form([key])) == []
