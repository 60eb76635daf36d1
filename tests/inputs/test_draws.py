from __future__ import annotations

import math

import numpy as np
import pytest

from nnfuzz.inputs.draws import draw_array
from nnfuzz.ir.dtypes import ALL, INTS, DType
from nnfuzz.ir.types import TensorType


@pytest.mark.parametrize("dtype", ALL, ids=lambda d: d.value)
@pytest.mark.parametrize("shape", [(), (1,), (7,), (2, 3, 1)])
def test_arrays_have_the_asked_type(dtype, shape):
    rng = np.random.default_rng(0)
    for restart in range(10):
        array = draw_array(rng, TensorType(dtype, shape), None, restart)
        assert isinstance(array, np.ndarray)
        assert array.dtype == dtype.numpy and array.shape == shape
        assert np.isfinite(array.astype(np.float64)).all()


@pytest.mark.parametrize("dtype", [*INTS, DType.BOOL], ids=lambda d: d.value)
def test_discrete_arrays_are_never_all_one_value(dtype):
    rng = np.random.default_rng(1)
    for restart in range(100):
        assert len(set(draw_array(rng, TensorType(dtype, (3,)), None, restart % 4).tolist())) > 1


def test_hints_are_followed():
    rng = np.random.default_rng(2)
    for hint in ((0.5, 2.0), (1e-4, math.inf), (-math.inf, -1.0), (2.0, 2.0)):
        array = draw_array(rng, TensorType(DType.FLOAT64, (50,)), hint, 0)
        assert (array >= hint[0]).all() and (array <= hint[1]).all()
    for restart in range(50):
        indices = draw_array(rng, TensorType(DType.INT64, (9,)), (-5, 4), restart)
        assert indices.min() >= -5 and indices.max() <= 4


def test_integers_reach_far_sometimes():
    rng = np.random.default_rng(3)
    arrays = [draw_array(rng, TensorType(DType.INT32, (8,)), None, 0) for _ in range(100)]
    far = sum(int(np.abs(a.astype(np.int64)).max() > 10_000) for a in arrays)
    assert 2 <= far <= 40


@pytest.mark.parametrize("dtype", [DType.INT64, DType.UINT64, DType.INT32])
def test_a_quarter_of_wide_integers_is_beyond_what_float32_holds(dtype):
    rng = np.random.default_rng(6)
    arrays = [draw_array(rng, TensorType(dtype, (4,)), None, 0) for _ in range(400)]
    tops = [max(abs(int(x)) for x in array) for array in arrays]
    assert 0.25 < sum(top > 2**24 for top in tops) / len(tops) < 0.55
    assert sum(top <= 10 for top in tops) > 0.25 * len(tops)
    powers = [2**bits for bits in (24, 31, 32, 53) if 2**bits <= dtype.limits[1]]
    assert all(any(abs(top - power) <= 5 for top in tops) for power in powers)


@pytest.mark.parametrize("bounds", [(200, 250), (-300, -200), (0, 5), (100, 130)])
def test_integers_stay_within_bounds(bounds):
    rng = np.random.default_rng(7)
    for _ in range(50):
        values = draw_array(rng, TensorType(DType.INT64, (5,)), bounds, 0)
        assert bounds[0] <= values.min() and values.max() <= bounds[1]
