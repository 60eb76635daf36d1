"""Placeholders become inputs or weights."""

from __future__ import annotations

from nnfuzz.generate.knowledge import ValueRange, derive
from nnfuzz.generate.placeholder import Placeholder
from nnfuzz.ir.dtypes import DType
from nnfuzz.ir.types import TensorType
from tests.generate.test_knowledge import FLOAT
from tests.inputs.graphs import op


def test_an_index_may_be_zero():
    index = Placeholder(fixed=True).known(TensorType(DType.INT64, (3,)))
    assert (-1, 0) in index.special
    indices = TensorType(DType.INT64, (3, 4))
    data = ValueRange((2.0, 3.0))
    gathered = derive(op("GatherElements", axis=0), [FLOAT, indices], [data, index])
    assert next(gathered).special == ()
