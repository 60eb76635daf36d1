"""Types of tensors, with and without open dimensions."""

import pytest

from nnfuzz.ir.dtypes import DType
from nnfuzz.ir.expr import Var
from nnfuzz.ir.types import TensorType


def test_an_open_dimension_gets_its_size():
    n = Var("n", 1, 9)
    open_type = TensorType(DType.FLOAT32, (n, 2))
    assert open_type.rank == 2 and not open_type.is_concrete
    with pytest.raises(TypeError):
        _ = open_type.sizes
    known = open_type.concrete({n: 3})
    assert known.is_concrete and known.sizes == (3, 2) and known.elements == 6
    assert repr(known) == "float32[3, 2]"


def test_a_change_makes_another_type():
    scalar = TensorType(DType.INT64, ())
    assert scalar.elements == 1
    assert not scalar.same(scalar.with_dtype(DType.INT32))
    assert scalar.with_shape([4]).with_shape([]).same(scalar)
