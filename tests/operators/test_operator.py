"""The operator contract: attributes, JSON, patterns, and what `check` says."""

from __future__ import annotations

import json
import random

import pytest

from nnfuzz.ir.dtypes import FLOATS, DType
from nnfuzz.ir.expr import Var
from nnfuzz.ir.types import TensorType
from nnfuzz.operators.attributes import Choice, Real, Sym
from nnfuzz.operators.draw import Draw
from nnfuzz.operators.operator import ConstraintError, In, OpSpec, operator


@operator
class Window(OpSpec):
    """Cuts a window of `size` out of the last axis."""

    inputs = (In("T", FLOATS, (1, 4)), In("I", (DType.INT64,), (0, 1)))
    size = Sym(1, 64)
    offsets = Sym(0, 8, lambda op, x, *_: x.rank, "offset")
    mode = Choice(("plain", "wrapped"))
    scale = Real(0.5, 2.0)
    to = Choice((DType.FLOAT32, DType.BOOL))
    output = "to"

    def requires(self, x, index):
        yield self.size <= x.shape[-1]

    def type_transfer(self, x, index):
        return [TensorType(self.to, (*x.shape[:-1], self.size))]


@pytest.fixture
def drawn():
    draw = Draw(random.Random(1))
    first = draw.tensor(DType.FLOAT32, 3)
    return Window.draw(draw, first), first


def settle(op, *types):
    """The operator and types with every variable at its least value."""
    dims = [d for t in types for d in t.shape]
    env = {v: v.lo for v in (*dims, op.size, *op.offsets) if isinstance(v, Var)}
    return op.concrete(env), [t.concrete(env) for t in types]


def test_attributes_are_drawn_by_declaration(drawn):
    op, _ = drawn
    assert isinstance(op.size, Var) and (op.size.lo, op.size.hi) == (1, 64)
    assert len(op.offsets) == 3
    assert op.mode in ("plain", "wrapped") and op.to in (DType.FLOAT32, DType.BOOL)
    assert 0.5 <= op.scale <= 2.0 and op.scale == float(f"{op.scale:.2g}")


def test_the_same_dice_draw_the_same_operator():
    ops = [Window.draw(Draw(random.Random(7)), TensorType(DType.FLOAT32, (4, 4))) for _ in range(2)]
    assert repr(ops[0]) == repr(ops[1])


def test_wrong_attributes_are_refused():
    with pytest.raises(TypeError, match="takes the attributes"):
        Window(size=3)
    with pytest.raises(TypeError, match="bogus"):
        Window(size=3, offsets=(), mode="plain", scale=1.0, to=DType.BOOL, bogus=1)


def test_attributes_survive_json(drawn):
    op, _ = settle(*drawn)
    again = Window.from_json(json.loads(json.dumps(op.to_json())))
    assert again.attributes == op.attributes
    assert again.to is op.to and isinstance(again.offsets, tuple)


def test_concrete_leaves_the_symbolic_operator_alone(drawn):
    op, _ = drawn
    concrete, _ = settle(*drawn)
    assert concrete.size == 1 and isinstance(op.size, Var)


def test_signatures_are_the_product_of_type_variables_and_output_choices():
    signatures = Window.signatures()
    assert len(signatures) == len(FLOATS) * 2
    assert {out for _, out in signatures} == {DType.FLOAT32, DType.BOOL}
    assert all(binding["I"] is DType.INT64 for binding, _ in signatures)


@pytest.mark.parametrize(
    ("types", "message"),
    [
        (["float32[4]"], "takes 2 to 2 inputs, got 1"),
        (["int32[4]", "int64[]"], "input 0 may not be int32"),
        (["float32[4]", "float32[]"], "input 1 may not be float32"),
        (["float32[]", "int64[]"], "input 0 may not have rank 0"),
        (["float32[2]", "int64[]"], "does not admit .* condition 0"),
    ],
)
def test_check_names_the_culprit(types, message):
    op = Window(size=3, offsets=(), mode="plain", scale=1.0, to=DType.BOOL)
    with pytest.raises(ConstraintError, match=message):
        op.check(*map(parsed, types))


def test_check_demands_concrete_conditions(drawn):
    op, first = drawn
    with pytest.raises(ConstraintError, match="not concrete"):
        op.check(first, TensorType(DType.INT64, ()))


def test_inputs_of_one_type_variable_share_their_dtype():
    @operator
    class Pair(OpSpec):
        inputs = (In("T", FLOATS), In("T"))

    with pytest.raises(ConstraintError, match="input 1 may not be float64"):
        Pair().check(parsed("float32[2]"), parsed("float64[2]"))


def test_subclasses_inherit_declarations_and_bring_their_own_name():
    @operator
    class Wider(Window):
        pad = Sym(0, 3)

    assert list(Wider.declared)[-1] == "pad" and Wider.declared.keys() > Window.declared.keys()
    assert (Wider.name, Window.name) == ("Wider", "Window")


def parsed(text):
    dtype, _, dims = text.rstrip("]").partition("[")
    return TensorType(DType(dtype), tuple(int(d) for d in dims.split(",") if d))
