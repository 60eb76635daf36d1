"""Grids: the numbers that a quantised tensor can hold, (integer - zero point) * scale."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from nnfuzz.ir.dtypes import DType
from nnfuzz.operators.families.quantized import (
    ADMITTED_SCALES,
    REDUCED,
    quantised,
    tie_distance,
)
from nnfuzz.operators.motif import Misfit

POWERS = 0.15
"""Share of grids whose scales are powers of two, as hardware without multipliers has them."""
OFF = 0.05
"""Share of scales that are off by a power of two, as after a wrong calibration."""
SATURATED = 0.05
"""Share of scales for a part of the range, as calibration by percentiles has them."""
SYMMETRIC = 0.6
"""Share of the grids of signed integers whose zero point is 0."""
CANDIDATES = 8
"""Scales of which the one with the fewest open ties is taken."""
ROUNDED = 32 * 2.0**-24
"""Error of a float32 value, relative to the greatest one: see nnfuzz.inputs.program."""


@dataclass(frozen=True, eq=False)
class Grid:
    """scale, zero: arrays of rank 0; of rank 1 along an axis; with blocks of the tensor's rank.

    zero: None stands for 0, and for the 8-bit floats, which have no zero point.
    """

    dtype: DType
    scale: np.ndarray
    zero: np.ndarray | None = None
    axis: int | None = None
    block: int | None = None

    def spread(self, param: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
        """A scale or zero point in float64 so that it broadcasts to a tensor of a shape."""
        wide = param.astype(np.float64)
        if self.axis is None:
            return wide
        if self.block:
            repeated = np.repeat(wide, self.block, self.axis)
            return repeated.take(range(shape[self.axis]), self.axis)
        sizes = [1] * len(shape)
        sizes[self.axis] = shape[self.axis]
        return wide.reshape(sizes)

    def codes(self, x: np.ndarray) -> np.ndarray:
        """The nearest codes of floats, as an array of the grid's dtype."""
        shape = x.shape
        quotient = torch.from_numpy(
            np.asarray(x.astype(np.float64) / self.spread(self.scale, shape))
        )
        zero = None if self.zero is None else torch.from_numpy(self.spread(self.zero, shape))
        return quantised(quotient, zero, self.dtype).numpy().astype(self.dtype.numpy)

    def shifted(self, codes: np.ndarray) -> np.ndarray:
        """Codes without the zero point, in float64."""
        zero = 0.0 if self.zero is None else self.spread(self.zero, codes.shape)
        return np.asarray(codes.astype(np.float64) - zero)


def tensor_grid(
    rng: random.Random, x: Tensor, of: DType, to: DType, explicit: bool = False
) -> Grid:
    """A grid for all of a tensor's values, with as few open ties as some draws give.

    x: the values. of: their dtype, which is that of the scale. explicit: whether there must be a
    zero point. Raises: Misfit if no scale fits the values.
    """
    if not x.numel() or not bool(torch.isfinite(x).all()):
        raise Misfit("no finite values to quantise")
    lo, hi = min(float(x.min()), 0.0), max(float(x.max()), 0.0)
    powers, off = rng.random() < POWERS, 2.0 ** rng.choice((-1, 1)) if rng.random() < OFF else 1.0
    part = rng.choice((0.5, 0.8)) if rng.random() < SATURATED else 1.0
    symmetric = to.is_float or (to.limits[0] < 0 and rng.random() < SYMMETRIC)
    step = _step(lo, hi, to, symmetric) * off * part
    found: list[tuple[int, Grid]] = []
    for _ in range(1 if powers else CANDIDATES):
        scale = 2.0 ** np.ceil(np.log2(step)) if powers else step * (1 + 0.1 * rng.random())
        grid = _with_zero(_scale(scale, of), lo, to, symmetric, even=powers)
        found.append((open_ties(x, grid), grid))
        if not found[-1][0]:
            break
    best = min(found, key=lambda pair: pair[0])[1]
    if best.zero is not None and not best.zero and not explicit and rng.random() < 0.3:
        return replace(best, zero=None)
    return best


def _step(lo: float, hi: float, to: DType, symmetric: bool) -> float:
    """The scale with which a range, 0 included, just fits into a dtype."""
    least, most = to.limits
    span = max(-lo, hi) / most if symmetric else (hi - lo) / (most - least)
    return span or 1.0  # all values are 0


def _scale(step: float, of: DType) -> np.ndarray:
    """Raises: Misfit if the scale is beyond what the dtype, or an operator, admits."""
    scale = np.asarray(step, of.numpy)
    least = max(ADMITTED_SCALES[0], 2.0**-14 if of is DType.FLOAT16 else 0.0)
    if not least <= float(scale) <= min(ADMITTED_SCALES[1], of.limits[1]):
        raise Misfit(f"the scale {step} is out of range")
    return scale


def _with_zero(scale: np.ndarray, lo: float, to: DType, symmetric: bool, even: bool) -> Grid:
    """even: the zero point is even, so that integer kernels round ties as quotients do."""
    if to.is_float:
        return Grid(to, scale)
    least, most = map(int, to.limits)
    zero = 0 if symmetric else min(max(round(least - lo / float(scale)), least), most)
    zero -= zero % 2 if even and zero > least else 0
    return Grid(to, scale, np.asarray(zero).astype(to.numpy))


def open_ties(x: Tensor, grid: Grid) -> int:
    """The number of elements that a rounding error may take to either of two codes.

    Ties of exact numbers under a power of two and an even zero point are decided by the standard.
    """
    wide = x.double()
    quotient = wide / float(grid.scale)
    zero = [] if grid.zero is None else [torch.tensor(float(grid.zero), dtype=torch.float64)]
    far = tie_distance(quotient, zero, grid.dtype)
    near = ROUNDED * float(quotient.abs().max()) + 2.0**-20
    exact = np.frexp(float(grid.scale))[0] == 0.5 and (not zero or not int(zero[0]) % 2)
    return int(((far < near) & (far > 0 if exact else far >= 0)).sum())


# -- weights ----------------------------------------------------------------------------------


def weight_grid(
    rng: random.Random,
    x: np.ndarray,
    to: DType,
    axis: int | None = None,
    block: int | None = None,
) -> Grid:
    """A grid for constants: symmetric, or for unsigned integers around the middle of the dtype.

    axis: along which there is a scale per index; with a block, one per block. Raises: Misfit.
    """
    if not x.size:
        raise Misfit("no values to quantise")
    most = REDUCED if to is DType.INT8 else to.limits[1]
    middle = 0 if to.limits[0] < 0 else (int(to.limits[1]) + 1) // 2
    greatest = _greatest(np.abs(x.astype(np.float64)), axis, block)
    steps = np.where(greatest > 0, greatest, 1.0) / (most - middle)
    powers = rng.random() < POWERS
    jitter = 2.0 ** np.rint(np.log2(steps)) if powers else steps * (1 + 0.05 * rng.random())
    scale = np.asarray(jitter, x.dtype)
    for step in scale.reshape(-1).astype(np.float64):
        _scale(float(step), DType.of(x.dtype))
    zero = None if to.is_float else np.full(scale.shape, middle).astype(to.numpy)
    return Grid(to, scale, zero, axis, block)


def _greatest(x: np.ndarray, axis: int | None, block: int | None) -> np.ndarray:
    """The greatest number of a tensor, of each index of an axis, or of each block along it."""
    if axis is None:
        return np.asarray(x.max())
    if not block:
        return np.asarray(x.max(tuple(i for i in range(x.ndim) if i != axis % x.ndim)))
    starts = range(0, x.shape[axis], block)
    return np.asarray(np.maximum.reduceat(x, list(starts), axis))
