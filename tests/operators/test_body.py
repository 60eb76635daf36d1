"""Bodies: what is drawn fits any size, survives JSON, and gets smaller by and by."""

from __future__ import annotations

import random

import pytest
import torch
from nnfuzz.opspecs.bodies import TAME, WILD

from nnfuzz.ir.dtypes import DType
from nnfuzz.operators.body import Body
from nnfuzz.operators.draw import Draw
from nnfuzz.operators.families.control import DTYPES

LOOKUP = {spec.name: spec for spec in WILD}.__getitem__


def run(op, *tensors):
    return op.torch(*tensors)


def drawn(count: int, dtype: DType, pool=TAME):
    for seed in range(count):
        draw = Draw(random.Random(seed))
        type_ = draw.tensor(dtype, seed % 5)
        arguments, outputs = 1 + seed % 3, 1 + seed % 2
        yield Body.draw(draw, pool, type_, arguments, outputs), type_


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda d: d.value)
def test_bodies_keep_the_type_of_their_arguments(dtype):
    for body, type_ in drawn(30, dtype):
        assert all(condition is True for condition in body.conditions(type_))
        shape = [3] * type_.rank
        arguments = [torch.ones(shape).to(dtype.torch) for _ in range(body.arguments)]
        for result in body.compose(run, arguments):
            assert result.dtype is dtype.torch and list(result.shape) == shape


def test_every_value_of_a_body_is_read_or_comes_out():
    for body, _ in drawn(60, DType.FLOAT32, WILD):
        used = {*body.outputs, *(i for step in body.steps for i in step.inputs)}
        assert used == set(range(body.arguments + len(body.steps)))


def test_shorter_bodies_have_fewer_steps_and_the_same_arguments():
    for body, type_ in drawn(40, DType.FLOAT32):
        while body.steps:
            shorter = list(body.shorter())
            assert all(len(other.steps) < len(body.steps) for other in shorter)
            assert all(condition is True for b in shorter for condition in b.conditions(type_))
            body = shorter[0]
        assert body.arguments and all(i < body.arguments for i in body.outputs)


def test_ranges_tell_what_comes_out_and_what_is_never_valid():
    steps = [["Abs", {}, [0]], ["Neg", {}, [1]], ["Sqrt", {}, [2]]]
    body = Body.from_json({"arguments": 1, "steps": steps, "outputs": [3]}, LOOKUP)
    assert body.ranges([(1.0, 2.0)]) is None
    assert body._without(2, 2).ranges([(-1.0, 2.0)]) == [(-2.0, 0.0)]
