"""Regimes of inputs."""

from __future__ import annotations

import math

import numpy as np
import pytest

from nnfuzz.inputs.draws import draw_array
from nnfuzz.inputs.regimes import HUNDREDS, ORDERS, Regime, _least, in_regime
from nnfuzz.ir.dtypes import FLOATS, DType
from nnfuzz.ir.types import TensorType
from nnfuzz.operators.operator import ANY_RANGE


def regime_of(values: np.ndarray) -> set[Regime]:
    """Regimes that the elements of a float array belong to."""
    kind, numbers = DType.of(values.dtype), values.astype(np.float64).ravel()
    sizes = np.abs(numbers[numbers != 0])
    if not sizes.size:
        return set()
    least, greatest = sizes.min(), sizes.max()
    whole, halves = sizes == np.rint(sizes), 2 * sizes == np.rint(2 * sizes)
    shown = {
        Regime.INTEGERS: bool(whole.all()) and greatest < HUNDREDS,
        Regime.TIES: bool(halves.all()) and not whole.all(),
        Regime.LARGE: greatest >= HUNDREDS,
        Regime.TINY: greatest <= 32 * _least(kind),
        Regime.SPREAD: sizes.size > 1 and greatest >= 2.0 ** (ORDERS / 2) * least,
    }
    return {regime for regime, here in shown.items() if here}


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
