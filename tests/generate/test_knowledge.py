"""What is known of the values of a growing graph, and what placeholders become."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import pytest

from nnfuzz.generate.knowledge import ValueRange, derive, input_ranges, unread
from nnfuzz.generate.values import Placeholder
from nnfuzz.ir.dtypes import DType
from nnfuzz.ir.types import TensorType
from tests.inputs.graphs import op

FLOAT = TensorType(DType.FLOAT32, (3, 4))


def through(*operators, start: ValueRange | None = None) -> ValueRange | None:
    """What is known behind unary operators; None once one has no valid input."""
    known = start or unread(FLOAT)
    for operator in operators:
        if known is None:
            return None
        known = first(operator, known)
    return known


def first(operator, *inputs: ValueRange, type_: TensorType = FLOAT) -> ValueRange | None:
    """What is known of the first output."""
    derived = derive(operator, [type_] * len(inputs), inputs)
    return derived and next(derived)


@pytest.mark.parametrize(
    "names",
    [
        ["Exp", "Neg", "Log"],
        ["Cosh", "Asin"],
        ["Sigmoid", "Floor", "Log"],
        ["Erf", "Log", "Sqrt"],
        ["Exp", "Neg", "Sqrt"],
    ],
    ids="-".join,
)
def test_chains_without_an_input_are_refused(names):
    assert through(*map(op, names)) is None


@pytest.mark.parametrize(
    "names",
    [["Sin", "Log"], ["Neg", "Log"], ["Cosh", "Log", "Sqrt"], ["Erf", "Acos", "Log"]],
    ids="-".join,
)
def test_chains_with_an_input_are_admitted(names):
    assert through(*map(op, names)) is not None


def test_equal_operands_are_recognised():
    x, y = ValueRange(), ValueRange()
    assert first(op("Sub"), x, x).range == (0, 0)
    assert first(op("Sub"), x, y).range == (-math.inf, math.inf)
    assert first(op("Greater"), x, x).range == (0, 0)
    zero = first(op("Sub"), x, x)
    assert first(op("Div"), y, zero) is None


def test_constants_among_the_elements_are_remembered():
    padded = through(op("Pad", mode="constant", pads=(1, 0, 0, 0), value=0))
    assert (0, 0) in padded.special
    assert through(op("Log"), start=padded) is None
    assert through(op("Reciprocal"), start=padded) is None
    assert through(op("Exp"), op("Log"), start=padded) is not None


def test_the_least_probability_is_bounded():
    assert through(op("LogSoftmax", axis=0), op("Acos")) is None
    assert through(op("LogSoftmax", axis=0), op("Exp"), op("Acos")) is not None


def test_readers_narrow_what_is_known():
    x = ValueRange()
    (cut,) = input_ranges(op("Sqrt"), [x])
    assert cut.range == (0, math.inf)
    assert first(op("Neg"), cut).range == (-math.inf, 0)


def test_integers_wrap_around():
    type_ = TensorType(DType.INT8, (3,))
    known = first(op("Add"), unread(type_), unread(type_), type_=type_)
    assert known.range == (-128, 127)


def test_few_whole_numbers_are_no_choice():
    assert through(op("Round"), op("Atanh")) is None
    assert through(op("Round"), op("Asin")) is not None
    assert through(op("Floor"), op("Neg"), op("Sigmoid"), op("Atanh")) is not None
    flags = ValueRange((0, 1), whole=True)
    assert through(op("Relu"), op("Atanh"), start=flags) is None
    assert through(op("Relu"), op("Asin"), start=flags) is not None


def test_what_shapes_determine_is_not_chosen():
    line = op("Range", dtype=DType.FLOAT32, axis=0, start=0, delta=2, source="constant")
    assert through(line).fixed
    assert through(line, op("Softmax", axis=0), op("Reciprocal")) is None
    assert through(line, op("Tan")) is None
    assert through(line, op("Sqrt")) is not None


def test_outputs_have_bounds_of_their_own():
    top = op("TopK", axis=0, k=2, largest=1, sorted=1)
    values, positions = itertools.islice(derive(top, [FLOAT], [ValueRange((3, 4))]), 2)
    assert values.range == (3, 4)
    assert positions.range[0] == 0
    kept = op("Dropout", ratio=0.5, form="plain", mask=True)
    values, mask = itertools.islice(derive(kept, [FLOAT], [ValueRange((3, 4))]), 2)
    assert (values.range, mask.range) == ((3, 4), (1, 1))


def test_bits_of_large_integers_are_moved_and_nothing_else():
    type_ = TensorType(DType.UINT64, (3,))
    turned = first(op("BitwiseNot"), unread(type_), type_=type_)
    assert first(op("Mod", fmod=1), unread(type_), turned, type_=type_) is None
    assert first(op("Add"), unread(type_), turned, type_=type_) is not None


def test_data_movement_leaves_special_elements_as_they_are():
    type_ = TensorType(DType.INT64, (2, 16))
    found = first(op("NonZero", size=16), unread(FLOAT))
    assert found.range == (0, DType.INT64.limits[1])
    padded = first(op("Pad", mode="constant", pads=(2, 0, 0, 0), value=7), found, type_=type_)
    assert {(0, 0), (7, 7)} <= set(padded.special)
    assert first(op("Div"), padded, padded, type_=type_) is None


def test_reciprocals_of_small_numbers_are_large():
    assert through(op("Cos"), op("Reciprocal"), op("Asin")) is None
    assert through(op("Cos"), op("Reciprocal"), op("Identity"), op("Atanh")) is None
    large = through(op("Cos"), op("Reciprocal"))
    assert first(op("Acosh"), replace(large, remote=0)) is not None
    assert through(op("Reciprocal"), op("Asin")) is not None


def test_indices_are_not_chosen_for_what_they_find():
    line = through(op("Range", dtype=DType.FLOAT32, axis=0, start=0, delta=2, source="constant"))
    found = first(op("Gather", axis=0), line, unread(TensorType(DType.INT64, (3,))))
    assert found.fixed
    assert through(op("Softmax", axis=0), op("Reciprocal"), start=found) is None


def test_what_is_copied_has_no_variance_to_divide_by():
    scaled = op("MeanVarianceNormalization", axes=(0,))
    copied = first(op("Expand", shape=(3, 4)), unread(FLOAT))
    assert copied.copied and first(op("Exp"), copied).copied
    assert first(scaled, unread(FLOAT)) is not None
    assert first(scaled, copied) is None
    assert first(scaled, first(op("Add"), copied, unread(FLOAT))) is not None


def test_windows_of_equal_numbers_are_no_number():
    sevens = through(op("ConstantOfShape", dtype=DType.FLOAT32, number=7, source="constant"))
    assert (sevens.range, sevens.fixed) == ((7, 7), True)
    window = op("BlackmanWindow", periodic=0, measured=0)
    assert through(window, op("Atanh"), start=sevens) is None


def test_shrinking_far_numbers_leaves_no_zero():
    far = op("Clip", min=None, max=-7.7)
    assert through(far, op("Shrink", lambd=1.0, bias=1.5)).range[1] < -6
    assert through(far, op("Shrink", lambd=1.0, bias=1.5), op("Atanh")) is None


def test_demanding_operators_keep_to_values_that_inputs_move():
    near, far = ValueRange(remote=1), ValueRange(remote=3)
    for name in ("Log", "Acosh", "Asin", "ReduceLogSum"):
        operator = op(name, axes=(0,), keepdims=1) if name.startswith("Reduce") else op(name)
        assert first(operator, near) is not None
        assert first(operator, far) is None
    assert first(op("Log"), ValueRange((0.5, 2.0), remote=3)) is not None
    assert first(op("Exp"), far) is not None
    assert first(op("Cast", to=DType.UINT8), far) is None
    assert first(op("Cast", to=DType.INT64), far) is not None
    assert first(op("Reciprocal"), far) is None
    assert first(op("Reciprocal"), ValueRange((1.0, 2.0), remote=3)) is not None
    assert first(op("MeanVarianceNormalization", axes=(0,)), far) is None
    two, ints = ValueRange((2.0, 2.0)), TensorType(DType.INT32, (3, 4))
    assert first(op("Pow"), far, ValueRange()) is None
    assert first(op("Pow"), far, two) is not None
    assert derive(op("Pow"), [FLOAT, ints], [far, unread(ints)]) is not None


def test_mixing_and_demands_make_a_value_remote():
    x = unread(FLOAT)
    assert through(op("Neg"), op("Transpose", perm=(1, 0))).remote == 0
    assert through(op("Softmax", axis=0), op("Floor")).remote == 2
    assert through(op("Log"), op("Asin")).remote == 2
    assert first(op("Add"), ValueRange(remote=4), x).remote == 0
    assert first(op("Min"), ValueRange(remote=4), x).remote == 4
    assert through(op("Cos"), op("Tanh")).remote == 1


def test_gates_grow_where_they_are_least():
    mish = through(op("Mish"), start=ValueRange((1.0, math.inf)))
    assert mish.range[0] == pytest.approx(0.865, abs=1e-3)
    assert through(op("HardSwish")).range[0] == pytest.approx(-0.375, rel=2e-3)
    assert through(op("Mish"), start=ValueRange((-math.inf, -2.0))).range[1] < 0.01


def test_a_known_condition_picks_its_branch():
    never, x, y = ValueRange((0, 0)), ValueRange((1.0, 2.0)), ValueRange((5.0, 6.0))
    assert first(op("Where"), never, x, y).range == (5.0, 6.0)
    assert first(op("Where"), ValueRange((0, 1)), x, y).range == (1.0, 6.0)


def test_quantisation_keeps_signs_and_spans():
    scale = ValueRange((0.01, 0.1))
    quantise = op("QuantizeLinear", axis=None, to=DType.INT8)
    assert quantise.value_range((0.0, 3.0), scale.range) == (0, 127)
    assert quantise.value_range((0.0, 3.0), scale.range, (-128, 127)) == (-128, 127)
    dynamic = op("DynamicQuantizeLinear")
    (scales,), _ = dynamic.further((-0.5, 0.5))
    assert scales[1] == pytest.approx(1 / 255)
    assert not dynamic.feasible((0.0, 0.02))


# Placeholders become inputs or weights.


def test_an_index_may_be_zero():
    index = Placeholder(fixed=True).known(TensorType(DType.INT64, (3,)))
    assert (-1, 0) in index.special
    indices = TensorType(DType.INT64, (3, 4))
    data = ValueRange((2.0, 3.0))
    gathered = derive(op("GatherElements", axis=0), [FLOAT, indices], [data, index])
    assert next(gathered).special == ()
