"""Every dtype is the same thing in NumPy, ONNX and PyTorch."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from onnx import helper

from nnfuzz.ir.dtypes import ALL, DType, held, is_floating, plain


@pytest.mark.parametrize("dtype", list(DType), ids=lambda d: d.value)
def test_libraries_agree_on_the_type(dtype):
    assert helper.tensor_dtype_to_np_dtype(dtype.onnx) == dtype.numpy
    assert DType.of(dtype.numpy) is DType.of(dtype.value) is dtype
    assert dtype.carried or DType.of(dtype.torch) is dtype
    kinds = [dtype.is_bool, dtype.is_int, dtype.is_float]
    assert kinds.count(True) == 1 and is_floating(np.zeros(2, dtype.numpy)) is dtype.is_float


@pytest.mark.parametrize("dtype", [d for d in DType if d.is_float and not d.carried])
def test_precision_is_pytorchs(dtype):
    info = torch.finfo(dtype.torch)
    assert dtype.unit_roundoff == info.eps / 2
    assert dtype.limits == (info.min, info.max)


@pytest.mark.parametrize("dtype", list(DType), ids=lambda d: d.value)
def test_limits_are_values_of_the_type(dtype):
    array = np.array(dtype.limits).astype(dtype.numpy)
    assert plain(array).tolist() == list(dtype.limits)
    assert plain(array).dtype.isbuiltin == 1


def test_all_dtypes_are_in_the_widest_group():
    assert set(ALL) == set(DType)


@pytest.mark.parametrize(
    "numbers, dtype, kept",
    [
        (np.array([2**31 - 1, 2**31, -1]), DType.INT32, [True, False, True]),
        (np.array([2**63, 7], np.uint64), DType.INT64, [False, True]),
        (np.array([2**63, 7], np.uint64), DType.UINT32, [False, True]),
        (np.array([2**24, 2**24 + 1]), DType.FLOAT32, [True, False]),
        (np.array([0.5, 0.1, np.inf]), DType.FLOAT32, [True, False, True]),
        (np.array([1.5, 1.001], np.float32), DType.BFLOAT16, [True, False]),
    ],
)
def test_which_numbers_a_dtype_holds(numbers, dtype, kept):
    assert held(numbers, dtype).tolist() == kept
