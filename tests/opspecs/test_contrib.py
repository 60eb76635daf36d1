"""Operators of com.microsoft against numbers computed by hand; test_conformance has the rest."""

from __future__ import annotations

import math

import numpy as np
import onnx
import pytest
import torch

from nnfuzz.check.instances import OpInstance
from nnfuzz.check.reference_implementations import one_node
from nnfuzz.ir.dtypes import DType
from nnfuzz.ir.types import TensorType
from nnfuzz.operators.registry import OpRegistry

REGISTRY = OpRegistry.load()


def op(name, **attributes):
    return REGISTRY.get(f"com.microsoft.{name}")(**attributes)


def scalars(*numbers, dtype=torch.float32):
    return [torch.tensor(n, dtype=dtype) for n in numbers]


def test_models_import_version_1_of_the_domain_and_declare_what_onnx_cannot_infer():
    x = TensorType(DType.FLOAT32, (2, 3))
    model = one_node(OpInstance(op("QuickGelu", alpha=1.702), (x,)), [x], 17)
    versions = {entry.domain: entry.version for entry in model.opset_import}
    assert versions == {"": 17, "com.microsoft": 1}
    (node,) = model.graph.node
    assert (node.domain, node.op_type) == ("com.microsoft", "QuickGelu")
    onnx.checker.check_model(model, full_check=True)


def test_gelu_follows_the_sum_with_a_bias():
    x, bias = torch.zeros(2, 3), torch.tensor([1.0, 0.0, -1.0])
    (y,) = op("BiasGelu").torch(x, bias)
    phi = 0.5 * (1 + math.erf(math.sqrt(0.5)))
    assert torch.allclose(y[1], torch.tensor([phi, 0.0, phi - 1]))


def test_the_first_axis_moves_behind_the_stack_before_the_product():
    a, b = torch.rand(4, 2, 3), torch.rand(3, 2, 5)
    found = op("FusedMatMul", transA=0, transB=0, alpha=2.0, batchA=1, batchB=1).torch(a, b)
    expected = 2 * torch.einsum("mbk,kbn->bmn", a, b)
    assert torch.allclose(found, expected)


def test_an_activation_has_its_parameters():
    attributes = {"alpha": 1.0, "beta": 1.0, "transA": 0, "transB": 0}
    gemm = op("FusedGemm", activation="LeakyRelu", **attributes)
    (y,) = gemm.torch(torch.tensor([[-2.0, 0.0]]), torch.eye(2))
    assert y.tolist() == [[-0.5, 0.0]]


@pytest.mark.parametrize(("name", "expected"), [("QLinearAdd", 22), ("QLinearMul", 30)])
def test_numbers_are_dequantised_and_quantised_again(name, expected):
    """(10 - 2) * 0.5 = 4 and (12 - 4) * 0.25 = 2, in steps of 0.4 from 7, or 10 above it."""
    x, y = (torch.tensor([n], dtype=torch.uint8) for n in (10, 12))
    sx, sy, sz = scalars(0.5, 0.25, 0.4 if name == "QLinearAdd" else 0.35)
    zx, zy, zz = scalars(2, 4, 7, dtype=torch.uint8)
    (z,) = op(name, to=DType.UINT8).torch(x, sx, zx, y, sy, zy, sz, zz)
    assert z.tolist() == [expected]


def test_a_pool_of_bytes_has_the_attributes_of_the_pool():
    x = torch.arange(4, dtype=torch.uint8).reshape(1, 1, 4)
    pool = op(
        "QLinearAveragePool",
        to=DType.UINT8,
        kernel_shape=(2,),
        strides=(2,),
        auto_pad="NOTSET",
        pads=(0, 0),
        ceil_mode=0,
        count_include_pad=0,
    )
    (sx, sy), (zx, zy) = scalars(1.0, 0.5), scalars(0, 1, dtype=torch.uint8)
    (y,) = pool.torch(x, sx, zx, sy, zy)
    assert np.array_equal(y.numpy().reshape(-1), [2, 6])


def test_factors_may_be_dequantised_before_they_are_multiplied():
    torch.manual_seed(0)
    product = op("MatMulIntegerToFloat", columns=0, listed=0)
    for _ in range(50):
        a = torch.randint(-9, 10, (3, 8), dtype=torch.int8)
        b = torch.randint(-9, 10, (8, 4), dtype=torch.int8)
        s, t = torch.rand(()) + 0.1, torch.rand(()) + 0.1
        wide = [a.double(), b.double(), s.double(), t.double()]
        exact = (wide[0] @ wide[1]) * (wide[2] * wide[3])
        error = (((a * s) @ (b * t)).double() - exact).abs()
        assert (error <= product.radius(2.0**-24, exact, *wide)).all()
        most = (wide[0].abs() @ wide[1].abs()) * (wide[2] * wide[3])
        assert (product.radius(2.0**-24, exact, *wide) < 1e-6 * most).all()
