"""Arrays of every dtype survive the way through a compiler's bytes."""

import numpy as np
import pytest

from nnfuzz.backend.packing import from_bytes, onnx_dtype, packed_bytes, to_bytes
from nnfuzz.ir.dtypes import INT4S, DType


@pytest.mark.parametrize("dtype", list(DType), ids=lambda d: d.value)
@pytest.mark.parametrize("shape", [(), (0, 3), (5,), (2, 3)])
def test_there_and_back(dtype, shape):
    array = (np.arange(np.prod(shape, dtype=int)) % 5).reshape(shape).astype(dtype.numpy)
    raw = to_bytes(array)
    bits = 4 if dtype in INT4S else 8 * dtype.itemsize
    assert len(raw) == (array.size * bits + 7) // 8 == packed_bytes(onnx_dtype(array), shape)
    back = from_bytes(raw, onnx_dtype(array), shape)
    assert (back.dtype, back.shape, back.tobytes()) == (array.dtype, shape, array.tobytes())


def test_the_first_of_two_elements_is_in_the_low_half():
    assert to_bytes(np.array([1, -2, 7]).astype(DType.INT4.numpy)) == b"\xe1\x07"


def test_columns_are_put_in_the_order_of_c():
    array = np.arange(6, dtype=np.int16).reshape(2, 3).T
    assert from_bytes(to_bytes(array), onnx_dtype(array), (3, 2)).tolist() == array.tolist()
