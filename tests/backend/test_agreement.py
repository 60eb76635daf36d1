"""The cheap check: a few ULP, bit-exact for discrete outputs, no torch."""

from __future__ import annotations

import subprocess
import sys

import ml_dtypes
import numpy as np
import pytest

from nnfuzz.backend.agreement import agree, close

INF, NAN = np.inf, np.nan


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, ml_dtypes.bfloat16])
def test_a_few_ulp_are_close_and_more_are_not(dtype):
    x = np.array([1.5, -3.25, 100], dtype)
    ulp = np.spacing(np.abs(x))
    assert close(x, x + 2 * ulp)
    assert not close(x, x + np.array([0, 0, 20], dtype) * ulp)


@pytest.mark.parametrize(
    ("a", "b", "agrees"),
    [
        ([NAN, 1], [NAN, 1], True),
        ([NAN, 1], [0, 1], False),
        ([1, 1], [NAN, 1], False),
        ([-INF, 1], [-INF, 1], True),
        ([INF, 1], [-INF, 1], False),
        ([3e38, 1], [INF, 1], False),
        ([INF, 1], [3e38, 1], False),
        ([0.0, 1], [-0.0, 1], True),
    ],
)
def test_non_finite_values_agree_with_themselves_only(a, b, agrees):
    assert close(np.float32(a), np.float32([b[0], np.nextafter(np.float32(b[1]), 2)])) is agrees


def test_discrete_outputs_are_bit_exact():
    assert close(np.array([1, 2]), np.array([1, 2]))
    assert not close(np.array([1, 2]), np.array([1, 3]))
    assert not close(np.array([True]), np.array([False]))


def test_shape_and_dtype_count():
    x = np.zeros((2, 3), np.float32)
    assert not close(x, x.reshape(3, 2))
    assert not close(x, x.astype(np.float64))


def test_all_outputs_have_to_agree():
    zero, one = np.zeros(2, np.float32), np.ones(2, np.float32)
    assert agree({"a": zero, "b": one}, {"b": one, "a": zero, "c": one})
    assert not agree({"a": zero, "b": one}, {"a": zero})
    assert not agree({"a": zero, "b": one}, {"a": zero, "b": zero})
    assert not agree({"a": zero}, {"a": -zero})  # for some inputs


def test_torch_is_not_imported():
    code = "import nnfuzz.backend.agreement, nnfuzz.compare.flip, nnfuzz.compare.mismatch, sys; "
    code += "sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
