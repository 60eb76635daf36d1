"""What PyTorch, ONNX and its reference implementations say of an operator."""

from __future__ import annotations

import random

import numpy as np
import pytest
import torch
from onnx import TensorProto, helper

from nnfuzz.check.instances import SIZES, solved
from nnfuzz.check.runtimes import (
    RejectedByOnnx,
    Unavailable,
    doubled,
    in_domain,
    inputs_for,
    one_node,
    other_types,
    run_body,
    run_reference,
    run_torch,
    type_of,
    unknown_operators,
)
from nnfuzz.ir.dtypes import DType
from nnfuzz.operators.draw import Draw
from nnfuzz.operators.registry import OpRegistry

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


def instance_of(name, dtype):
    spec = OpRegistry.load().get(name)
    signature = next(s for s in spec.signatures() if dtype in s[0].values())
    return solved(spec, signature, 2, Draw(random.Random(3), SIZES))


@pytest.mark.parametrize("name, dtype", [("Sqrt", DType.FLOAT32), ("Add", DType.INT8)])
def test_inputs_are_of_the_types_and_in_the_domain(name, dtype):
    instance = instance_of(name, dtype)
    arrays, inside = inputs_for(instance, np.random.default_rng(0))
    assert inside and in_domain(instance.op, arrays)
    assert all(type_of(a).same(t) for a, t in zip(arrays, instance.types, strict=True))
    outputs = instance.op.type_transfer(*instance.types)
    found = run_torch(instance.op, arrays)
    assert all(type_of(a).same(t) for a, t in zip(found, outputs, strict=True))


def test_onnx_infers_what_a_spec_claims():
    instance = instance_of("Sqrt", DType.FLOAT32)
    outputs = instance.op.type_transfer(*instance.types)
    model = one_node(instance, outputs, 20)
    assert not other_types(model, outputs) and not unknown_operators(model)
    assert other_types(model, [outputs[0].with_dtype(DType.INT8)])
    model.graph.node[0].op_type = "Squirt"
    assert unknown_operators(model) == ["Squirt"]
    with pytest.raises(RejectedByOnnx):
        other_types(model, outputs)


def test_only_floats_are_doubled():
    floats, integers = doubled([np.ones(2, np.float16), np.ones(2, np.int8)])
    assert floats.dtype is torch.float64 and integers.dtype is torch.int8


def test_an_operator_that_writes_to_its_input_is_refused():
    class Writes:
        def torch(self, x):
            return x.mul_(2)

        def type_transfer(self, x):
            return [x]

    with pytest.raises(ValueError, match="wrote to its input"):
        run_torch(Writes(), [np.ones(2, np.float32)])
