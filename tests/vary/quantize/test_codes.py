"""Values as floats and as codes, and the draft that computes what is added."""

from __future__ import annotations

import numpy as np
import pytest

from nnfuzz.ir.dtypes import DType
from nnfuzz.ir.graph import Node
from nnfuzz.operators.families.quantized import BYTES
from nnfuzz.operators.motif import Misfit
from nnfuzz.vary.quantize.codes import Values
from tests.inputs.graphs import op
from tests.vary.quantize.test_integers import conv
from tests.vary.quantize.writing import form, operators, values_of


@pytest.fixture
def values() -> Values:
    return values_of(conv(), 4, form())


def test_codes_are_made_once_for_each_wish(values):
    first = values.codes("x", BYTES, explicit=True)
    assert values.codes("x", BYTES) is first and first.zero is not None
    other = values.codes("x", (DType.INT16,))
    assert other.grid.dtype is DType.INT16
    assert operators(values) == ["QuantizeLinear"] * 2


def test_a_constant_is_stored_as_codes(values):
    stored = values.codes("w", BYTES)
    assert stored.name in values.draft.graph.weights and not operators(values)
    assert values.draft.graph.type(values.dequantised(stored, "w")).same(values.type("w"))


def test_a_value_that_is_read_is_what_came_of_its_codes(values):
    assert values.read("x") == "x"
    through = values.through("x")
    assert values.read("x").startswith("x_dq") and through.startswith("x_dq")
    assert values.floats("x") == "x"
    values.through("w")
    assert values.read("w") == "w"


def test_the_bias_needs_the_scales_of_both_operands(values):
    left, right = values.codes("x", BYTES), values.weight("w", 0, BYTES)
    whole, scale = values.bias("b", left, right)
    assert whole.shape == scale.shape == (3,) and whole.dtype.name == "int32"
    with pytest.raises(Misfit):
        values.bias("x", left, right)
    with pytest.raises(Misfit):
        values.weight("x", None)


KEY = "QuantizeLinear(float32)->int8"


def draft(*refused: str):
    return values_of(conv(), 1, form(refused)).draft


def test_new_names_are_free():
    made = draft()
    names = [made.constant(np.float32(1), "x_s") for _ in range(3)]
    assert names == ["x_s", "x_s1", "x_s2"] and set(names) < set(made.graph.weights)
    assert made.graph.prescribed["x_s"] == (1.0, 1.0)


@pytest.mark.parametrize("refused", [(), (KEY,)])
def test_only_signatures_of_the_catalog_are_called(refused):
    made = draft(*refused)
    given = ("x", made.constant(np.float32(0.1), "s"), made.constant(np.int8(3), "z"))
    if refused:
        with pytest.raises(Misfit, match="is not for"):
            made.call("QuantizeLinear", *given, stem="q", axis=None, to=DType.INT8)
    else:
        (name,) = made.call("QuantizeLinear", *given, stem="q", axis=None, to=DType.INT8)
        assert made.values[name].dtype is DType.INT8.torch


def test_misfits_name_what_does_not_fit():
    made = draft()
    with pytest.raises(Misfit, match="no Nothing here"):
        made.call("Nothing", "x", stem="y")
    with pytest.raises(Misfit, match="Conv"):
        made.add(conv().nodes[0].op, ("x", "b"), "y")
    with pytest.raises(Misfit, match="outside of its domain"):
        made.copy(Node(op("Log"), ("x",), ("y",)), ["x"])
