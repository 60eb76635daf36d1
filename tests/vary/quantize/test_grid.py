"""Grids: they hold the values they were made for, and few of those lie next to a tie."""

from __future__ import annotations

import random

import numpy as np
import pytest
import torch

from nnfuzz.ir.dtypes import DType
from nnfuzz.operators.families.quantized import REDUCED
from nnfuzz.operators.motif import Misfit
from nnfuzz.vary.quantize.codes import Grid, open_ties, tensor_grid, weight_grid

CODES = (DType.UINT8, DType.INT8, DType.UINT16, DType.INT16, DType.UINT4, DType.INT4)


def some(count: int = 50) -> torch.Tensor:
    return torch.randn(count, generator=torch.Generator().manual_seed(1)) * 3


def shifted(grid: Grid, codes: np.ndarray) -> np.ndarray:
    return codes - (0.0 if grid.zero is None else np.float64(grid.spread(grid.zero, codes.shape)))


@pytest.mark.parametrize("to", [*CODES, DType.FLOAT8_E4M3FN])
def test_a_grid_covers_its_values(to):
    x = some()
    near = 0
    for seed in range(20):
        grid = tensor_grid(random.Random(seed), x, DType.FLOAT32, to)
        back = shifted(grid, grid.codes(x.numpy())) * float(grid.scale)
        worst = float(np.abs(back - x.numpy()).max())
        near += worst <= (
            0.6 * float(x.abs().max()) / 8 if to.is_float else 0.6 * float(grid.scale)
        )
    assert near >= 10  # the others cut the range off


def test_values_keep_away_from_ties():
    x = some(200)
    found = [tensor_grid(random.Random(s), x, DType.FLOAT32, DType.UINT8) for s in range(40)]
    assert sum(open_ties(x, grid) for grid in found) <= 2


def test_ties_of_powers_of_two_are_decided_and_others_are_open():
    x = torch.tensor([0.25, 0.75])
    assert open_ties(x, Grid(DType.INT8, np.float32(0.5), np.int8(2))) == 0
    assert open_ties(x, Grid(DType.INT8, np.float32(0.5), np.int8(3))) == 2
    y = torch.tensor([0.15, 0.45])
    assert open_ties(y, Grid(DType.INT8, np.float32(0.3), np.int8(2))) == 2


@pytest.mark.parametrize(
    "x", [torch.tensor([float("nan")]), torch.zeros(0), torch.full((2,), 1e30)]
)
def test_what_fits_on_no_grid_is_a_misfit(x):
    with pytest.raises(Misfit):
        tensor_grid(random.Random(0), x, DType.FLOAT32, DType.UINT8)


@pytest.mark.parametrize(
    ("axis", "block", "shape"), [(None, None, ()), (1, None, (5,)), (1, 2, (4, 3))]
)
def test_weights_are_near_their_codes(axis, block, shape):
    x = some(20).numpy().reshape(4, 5)
    for to in CODES:
        grid = weight_grid(random.Random(3), x, to, axis, block)
        assert grid.scale.shape == shape
        codes = grid.codes(x)
        spread = grid.spread(grid.scale, x.shape)
        assert (np.abs(shifted(grid, codes) * spread - x) <= 0.51 * spread).mean() > 0.7
        assert to is not DType.INT8 or np.abs(codes).max() <= 2 * REDUCED
