"""ONNX semantics of elementwise operators where PyTorch's own differ, and their numeric claims."""

from __future__ import annotations

import inspect
import math

import onnx
import pytest
import torch

from nnfuzz.check import reference_implementations as references
from nnfuzz.check.instances import OpInstance
from nnfuzz.ir.dtypes import DType
from nnfuzz.ir.types import TensorType
from nnfuzz.operators.intervals import Interval
from nnfuzz.operators.operator import ConstraintError
from nnfuzz.operators.registry import OpRegistry

REGISTRY = OpRegistry.load()


def op(name, **attributes):
    return REGISTRY.get(name)(**attributes)


def run(name, *rows, dtype=torch.int32, **attributes):
    tensors = [torch.tensor(row, dtype=dtype) for row in rows]
    return op(name, **attributes).torch(*tensors).tolist()


def ops_of(instance, opset):
    """Operator types of the instance's direct lowering, which must pass the full check."""
    model = references.one_node(instance, instance.op.type_transfer(*instance.types), opset)
    onnx.checker.check_model(model, full_check=True)
    return [node.op_type for node in model.graph.node]


@pytest.mark.parametrize("name", ["Cos", "Log", "Atan", "Asin", "Sigmoid", "Tanh", "Greater"])
def test_an_elementwise_spec_takes_at_most_five_lines(name):
    """Without what a spec may leave out: `edges`, which only says that IEEE 754 decides, and a
    `radius` that was calibrated against real kernels where `rounding` would do."""
    source, _, _ = inspect.getsource(REGISTRY.get(name)).partition("    def radius")
    lines = source.replace("    edges = True\n", "").splitlines()
    assert len([line for line in lines if line.strip()]) <= 5


def test_integer_division_truncates_and_mod_knows_both_signs():
    assert run("Div", [7, -7, 7, -7], [2, 2, -2, -2]) == [3, -3, -3, 3]
    assert run("Mod", [7, -7, 7, -7], [3, 3, -3, -3], fmod=1) == [1, -1, 1, -1]
    assert run("Mod", [7, -7, 7, -7], [3, 3, -3, -3], fmod=0) == [1, 2, -2, -1]


def test_the_quotient_of_mod_may_round_to_an_integer():
    """0.3 / 0.1 is less than 3, and 3 in float32; then the remainder is 0, not nearly 0.1."""
    for x, y in ((0.3, 0.1), (-0.3, 0.1), (7.5, -2.0), (-1e-9, 5.0), (6.0, 2.0)):
        a, b = torch.tensor([x, 1.0]), torch.tensor([y, 3.0])
        written = a - torch.floor(a / b) * b
        exact = op("Mod", fmod=0).torch(a.double(), b.double())
        radius = op("Mod", fmod=0).radius(2**-24, exact, a.double(), b.double())
        assert ((written - exact).abs() <= radius).all()
        assert radius[1] < 1e-6
    floats = OpInstance(op("Mod", fmod=0), (TensorType(DType.FLOAT32, (2,)),) * 2)
    assert ops_of(floats, 21) == ["Div", "Floor", "Mul", "Sub"]


def test_the_quotient_of_mod_may_be_the_product_with_a_reciprocal():
    """122 / 61 is 2; 122 * (1 / 61) is less in bfloat16, and the remainder is 61. By powers of two
    every quotient is exact."""
    a, b = torch.tensor([122.0, 24.0, 0.0]), torch.tensor([61.0, 8.0, 61.0])
    half = [t.bfloat16() for t in (a, b)]
    written = half[0] - torch.floor(half[0] * half[1].reciprocal()) * half[1]
    exact = op("Mod", fmod=0).torch(a.double(), b.double())
    radius = op("Mod", fmod=0).radius(2**-8, exact, a.double(), b.double())
    assert exact.tolist() == [0, 0, 0]
    assert ((written - exact).abs() <= radius).all()
    assert written.tolist() == [61.0, 0.0, 0.0]
    assert radius[0] >= 61
    assert (radius[1:] < 2).all()


def test_integers_wrap_around():
    assert run("Add", [127, -128], [1, -1], dtype=torch.int8) == [-128, 127]
    assert run("Cast", [300, -1], to=DType.UINT8) == [44, 255]


def test_halves_round_to_even():
    assert run("Round", [0.5, 1.5, 2.5, -0.5], dtype=torch.float32) == [0.0, 2.0, 2.0, -0.0]


@pytest.mark.parametrize(
    ("name", "bad", "good"),
    [
        ("Log", [-1.0], [0.5]),
        ("Sqrt", [-1.0], [0.0]),
        ("Exp", [90.0], [80.0]),
        ("Asin", [1.5], [1.0]),
        ("Reciprocal", [0.0], [0.1]),
        ("Tan", [math.pi / 2], [1.0]),
    ],
)
def test_domains_tell_where_numbers_fail(name, bad, good):
    for values, inside in ((bad, False), (good, True)):
        terms = op(name).domain(torch.tensor(values))
        assert all(bool((t <= 0).all()) for t in terms) is inside


def test_integer_division_keeps_off_zero_and_off_the_quotient_that_overflows():
    terms = op("Div").domain(
        torch.tensor([1, -128, -128, 5], dtype=torch.int8),
        torch.tensor([0, -1, 1, 2], dtype=torch.int8),
    )
    assert [max(t[i].item() for t in terms) > 0 for i in range(4)] == [True, True, False, False]


def test_ranges_refuse_what_can_not_work():
    below, sine = (-math.inf, -1.0), op("Sin").value_range((-math.inf, math.inf))
    assert not op("Sqrt").feasible(below)
    assert not op("Log").feasible(op("Neg").value_range((0.0, math.inf)))
    assert sine == (-1, 1) and op("Asin").feasible(sine)
    assert op("Exp").value_range((-math.inf, 0.0)) == (0.0, 1.0)
    assert not op("Cast", to=DType.INT8).feasible((300.0, math.inf))


def test_margins_measure_the_way_to_the_next_step():
    x = torch.tensor([0.25, 1.5, -0.9])
    assert torch.allclose(op("Floor").margins(x)[0], torch.tensor([0.25, 0.5, 0.1]))
    assert torch.allclose(op("Round").margins(x)[0], torch.tensor([0.25, 0.0, 0.4]))
    cast = op("Cast", to=DType.INT32).margins(x)[0]
    assert torch.allclose(cast, torch.tensor([0.75, 0.5, 0.1]))
    assert op("Equal").margins(torch.tensor([1]), torch.tensor([2])) == []


def test_lowering_follows_the_opset():
    small = OpInstance(op("Add"), (TensorType(DType.INT8, (2,)),) * 2)
    assert ops_of(small, 14) == ["Add"]
    assert ops_of(small, 13) == ["Cast", "Cast", "Add", "Cast"]
    gelu = OpInstance(op("Gelu", approximate="tanh"), (TensorType(DType.FLOAT32, (2,)),))
    assert ops_of(gelu, 20) == ["Gelu"]
    assert "Tanh" in ops_of(gelu, 19)
    relu = OpInstance(op("Relu"), (TensorType(DType.INT16, (2,)),))
    assert ops_of(relu, 13) == ["Max"]


def test_clip_omits_an_absent_bound():
    instance = OpInstance(op("Clip", min=None, max=3), (TensorType(DType.INT32, (2,)),))
    model = references.one_node(instance, instance.types, 20)
    assert list(model.graph.node[0].input)[:2] == ["x0", ""]


def test_the_slope_of_prelu_broadcasts_one_way_only():
    x, wide = TensorType(DType.FLOAT32, (1,)), TensorType(DType.FLOAT32, (4,))
    op("PRelu").check(wide, x)
    with pytest.raises(ConstraintError, match="PRelu does not admit"):
        op("PRelu").check(x, wide)


def test_float_attributes_mean_the_float32_that_onnx_stores():
    y = op("LeakyRelu", alpha=0.1).torch(torch.tensor([-1.0], dtype=torch.float64))
    assert y.item() == -0.10000000149011612


@pytest.mark.parametrize("name", ["Div", "Mod"])
@pytest.mark.parametrize("dtype", [torch.int8, torch.int32, torch.int64])
def test_undefined_quotients_of_integers_neither_raise_nor_kill(name, dtype):
    """PyTorch raises for a divisor of 0, and dies (SIGFPE) of the least integer by -1."""
    least = torch.iinfo(dtype).min
    x, y = torch.tensor([7, least, 7, -7], dtype=dtype), torch.tensor([0, -1, 2, 2], dtype=dtype)
    divided = op(name, **({"fmod": 0} if name == "Mod" else {}))
    assert divided.torch(x, y)[2:].tolist() == ([3, -3] if name == "Div" else [1, 1])
    intervals = Interval(x, x), Interval(y, y)
    assert divided.undefined(*intervals).tolist() == [True, True, False, False]
    assert len(divided.interval(*intervals)) == 1


def test_powers_of_integers_are_truncated_and_undefined_where_they_do_not_fit():
    power, x = op("Pow"), torch.tensor([4, 5, 9], dtype=torch.int32)
    y = torch.tensor([0.5, 0.5, 1.5])
    assert power.torch(x, y).tolist() == [2, 2, 27]
    (near,) = power.decided(2.0**-24, *(Interval(v, v) for v in (x, y.double())))
    assert (near.lo == near.hi).tolist() == [False, True, False]
    huge = torch.tensor([50, -2, 2], dtype=torch.int32)
    powers = torch.tensor([9, 3, -1])
    lost = power.undefined(*(Interval(v, v) for v in (huge, powers)))
    assert lost.tolist() == [True, False, True]
    assert bool((power.domain(huge, powers)[0] > 0).equal(lost))
