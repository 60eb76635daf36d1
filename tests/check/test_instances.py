"""Concrete applications of one operator, drawn in several ways."""

import random

import pytest

from nnfuzz.check.instances import SIZES, OpInstance, blind, broken, fixed_output, preceding, solved
from nnfuzz.check.operators import is_rejected
from nnfuzz.ir.dtypes import DType
from nnfuzz.operators.draw import Draw
from nnfuzz.operators.registry import OpRegistry

NAMES = ["Add", "MatMul", "Concat", "Softmax"]


@pytest.fixture(params=NAMES)
def spec(request):
    return OpRegistry.load().get(request.param)


@pytest.fixture
def draw():
    return Draw(random.Random(7), SIZES)


def test_solved_instances_are_admitted(spec, draw):
    lo, hi = spec.inputs[0].ranks
    found = [solved(spec, spec.signatures()[0], rank, draw) for rank in range(lo, min(hi, 4) + 1)]
    assert any(found)
    for instance in filter(None, found):
        assert not is_rejected(instance) and instance.op.name in repr(instance)


def test_what_precedes_an_output_yields_it(spec, draw):
    found = [preceding(spec, spec.signatures()[0], rank, draw) for rank in range(5)]
    assert any(found)
    for instance, output in filter(None, found):
        assert instance.op.type_transfer(*instance.types)[0].same(output)


def test_a_broken_condition_is_rejected(draw):
    spec = OpRegistry.load().get("MatMul")
    found = [broken(spec, spec.signatures()[0], draw) for _ in range(20)]
    assert any(found) and all(map(is_rejected, filter(None, found)))


def test_blind_instances_are_concrete(spec, draw):
    instance = blind(spec, spec.signatures()[0], draw)
    assert isinstance(instance, OpInstance)
    assert all(isinstance(size, int) for type_ in instance.types for size in type_.shape)


def test_an_attribute_can_name_the_dtype_of_the_output():
    cast = OpRegistry.load().get("Cast")
    binding, output = next(s for s in cast.signatures() if s[1] is DType.FLOAT16)
    instance = solved(cast, (binding, output), 1, Draw(random.Random(1), SIZES))
    assert fixed_output(instance.op, output).attributes == instance.op.attributes
    assert instance.op.type_transfer(*instance.types)[0].dtype is DType.FLOAT16
