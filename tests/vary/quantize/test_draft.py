"""A draft computes what it adds, and says where an operator does not fit."""

from __future__ import annotations

import numpy as np
import pytest

from nnfuzz.ir.dtypes import DType
from nnfuzz.ir.graph import Node
from nnfuzz.operators.motif import Misfit
from tests.inputs.graphs import op
from tests.vary.quantize.test_integers import conv
from tests.vary.quantize.writing import form, values_of

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
