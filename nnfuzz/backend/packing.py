"""Arrays of every dtype of ONNX as bytes and back, for compilers that take no such NumPy arrays.

NumPy knows bfloat16, 8-bit floats and 4-bit integers through ml_dtypes only, and holds one element
of 4 bits per byte. Compilers and ONNX files hold two, the first in the low half.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def to_bytes(array: np.ndarray) -> bytes:
    """The elements in the order of C, as a compiler's memory and ONNX's `raw_data` hold them."""
    from onnx import numpy_helper

    return numpy_helper.from_array(np.asarray(array, order="C")).raw_data


def from_bytes(raw: bytes, dtype: int, shape: Sequence[int]) -> np.ndarray:
    """The inverse of `to_bytes`; dtype: a number of onnx.TensorProto.DataType."""
    from onnx import TensorProto, numpy_helper

    return numpy_helper.to_array(TensorProto(data_type=dtype, dims=shape, raw_data=raw))


def onnx_dtype(array: np.ndarray) -> int:
    """The number of an array's dtype in onnx.TensorProto.DataType."""
    from onnx.helper import np_dtype_to_tensor_dtype

    return int(np_dtype_to_tensor_dtype(array.dtype))


def packed_bytes(dtype: int, shape: Sequence[int]) -> int:
    """How many bytes `to_bytes` makes of an array of this dtype, a number of
    onnx.TensorProto.DataType.
    """
    from onnx.helper import tensor_dtype_to_np_dtype

    return len(to_bytes(np.zeros(shape, tensor_dtype_to_np_dtype(dtype))))
