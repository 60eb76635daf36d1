"""The precision lift keeps numbers and structure, and narrows the envelope."""

from __future__ import annotations

import numpy as np
import pytest

from nnfuzz.compare.envelope import envelopes
from nnfuzz.compare.lift import LiftError, lift
from nnfuzz.ir.dtypes import DType


def test_float16_becomes_float32(build):
    b = build(x=np.float16([0.1, 0.7]), i=np.int32([3, 7]))
    y = b.add("Mul", "x", b.add("Cast", "i", to=DType.FLOAT16))
    graph, params = b.done(y)
    wide, wider = lift(graph, params)
    assert wide.type(y).dtype is DType.FLOAT32
    assert wide.nodes[0].op.to is DType.FLOAT32
    assert (wider["x"].dtype, wider["i"].dtype) == (np.float32, np.int32)
    assert wider["x"].tolist() == params["x"].tolist()
    before, after = (envelopes(*pair)[y] for pair in ((graph, params), (wide, wider)))
    assert (after.hi - after.lo < (before.hi - before.lo) / 1000).all()


def test_nothing_to_lift(build):
    b = build(x=np.int32([1]))
    with pytest.raises(LiftError, match="no value"):
        lift(*b.done(b.add("Neg", "x")))
