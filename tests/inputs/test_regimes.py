"""Regimes of inputs."""

from __future__ import annotations

import math

import numpy as np
import pytest

from nnfuzz.inputs.draws import draw_array
from nnfuzz.inputs.regimes import Regime, in_regime, regime_of
from nnfuzz.ir.dtypes import FLOATS, DType
from nnfuzz.ir.types import TensorType
from nnfuzz.operators.operator import ANY_RANGE


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
