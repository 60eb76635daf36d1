from __future__ import annotations

import math

import numpy as np
import pytest

from nnfuzz.inputs.draws import draw_array
from nnfuzz.inputs.regimes import Regime, in_regime, regime_of
from nnfuzz.ir.dtypes import ALL, FLOATS, INTS, DType
from nnfuzz.ir.types import TensorType
from nnfuzz.operators.operator import ANY_RANGE


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


@pytest.mark.parametrize("dtype", [DType.FLOAT16, DType.BFLOAT16, DType.FLOAT32, DType.FLOAT64])
def test_every_regime_is_drawn_where_nothing_forbids_it(dtype):
    rng, type_ = np.random.default_rng(4), TensorType(dtype, (40,))
    for regime in Regime:
        shown = [
            regime_of(in_regime(regime, rng, type_, ANY_RANGE).astype(dtype.numpy)) for _ in "abcde"
        ]
        assert sum(regime in regimes for regimes in shown) >= 4, regime
    drawn = [regime_of(draw_array(rng, type_, None, 0)) for _ in range(400)]
    for regime in Regime:
        assert sum(regime in shown for shown in drawn) > 0.1 * len(drawn)
    assert not any(regime_of(draw_array(rng, type_, None, 1)) - {Regime.SPREAD} for _ in range(50))


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


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("bounds", [(-3, 3), (0.1, 2), (-math.inf, -4), (0, 0), (5.2, 5.4)])
def test_regimes_keep_to_bounds(dtype, bounds):
    rng = np.random.default_rng(5)
    for regime in Regime:
        for shape in ((), (0,), (9,)):
            values = in_regime(regime, rng, TensorType(dtype, shape), bounds)
            if values is not None:
                assert values.shape == shape
                assert ((values >= bounds[0]) & (values <= bounds[1])).all()
