"""Grids (dtype, scale and zero point of quantised tensors), and the values of a graph in its
quantised twin: as floats, as codes (the small integers), or as dequantised codes."""

from __future__ import annotations

import random
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import torch
from torch import Tensor

from nnfuzz.ir.dtypes import DType
from nnfuzz.ir.types import TensorType
from nnfuzz.operators.carriers import array
from nnfuzz.operators.families.quantized import (
    ADMITTED_SCALES,
    BYTES,
    REDUCED,
    quantised,
    tie_distance,
)
from nnfuzz.operators.motif import Misfit
from nnfuzz.vary.quantize.draft import Draft

POWERS = 0.15
"""Share of grids with scales that are powers of two, as hardware without multipliers needs."""
OFF = 0.05
"""Share of scales that are wrong by a power of two, as after bad calibration."""
SATURATED = 0.05
"""Share of scales that cover a part of the range only, as calibration by percentiles gives."""
SYMMETRIC = 0.6
"""Share of grids of signed integers with zero point 0."""
CANDIDATES = 8
"""Number of random scales, of which that with the fewest `open_ties` is used."""
ROUNDED = 32 * 2.0**-24
"""Error of a float32 value, relative to the greatest one; as in nnfuzz.inputs.program."""


@dataclass(frozen=True, eq=False)
class Grid:
    """The numbers that a quantised tensor can hold: (code - zero) * scale.

    scale, zero: rank 0 if per tensor, rank 1 if per index of `axis`, the tensor's rank if per block
    of `block` elements. zero: None stands for 0; 8-bit floats have no zero point.
    """

    dtype: DType
    scale: np.ndarray
    zero: np.ndarray | None = None
    axis: int | None = None
    block: int | None = None

    def spread(self, param: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
        """A scale or zero point as float64, reshaped to broadcast to a tensor of a shape."""
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
        """The codes nearest to some floats, as an array of the grid's dtype."""
        shape = x.shape
        quotient = torch.from_numpy(
            np.asarray(x.astype(np.float64) / self.spread(self.scale, shape))
        )
        zero = None if self.zero is None else torch.from_numpy(self.spread(self.zero, shape))
        return quantised(quotient, zero, self.dtype).numpy().astype(self.dtype.numpy)


def tensor_grid(
    rng: random.Random, x: Tensor, of: DType, to: DType, explicit: bool = False
) -> Grid:
    """A per-tensor grid; of several random ones, that with the fewest `open_ties`.

    x: the tensor's values. of: their dtype, which is also that of the scale. to: dtype of the
    codes. explicit: whether a zero point is required. Raises: Misfit if no scale fits the values.
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
    """The scale with which a range, extended to include 0, just fits into a dtype."""
    least, most = to.limits
    span = max(-lo, hi) / most if symmetric else (hi - lo) / (most - least)
    return span or 1.0  # all values are 0


def _scale(step: float, of: DType) -> np.ndarray:
    """The scale as an array. Raises: Misfit if it exceeds what the dtype or an operator admits."""
    scale = np.asarray(step, of.numpy)
    least = max(ADMITTED_SCALES[0], 2.0**-14 if of is DType.FLOAT16 else 0.0)
    if not least <= float(scale) <= min(ADMITTED_SCALES[1], of.limits[1]):
        raise Misfit(f"the scale {step} is out of range")
    return scale


def _with_zero(scale: np.ndarray, lo: float, to: DType, symmetric: bool, even: bool) -> Grid:
    """A grid with a random zero point. even: whether it is even, so that integer kernels round ties
    as quotients do."""
    if to.is_float:
        return Grid(to, scale)
    least, most = map(int, to.limits)
    zero = 0 if symmetric else min(max(round(least - lo / float(scale)), least), most)
    zero -= zero % 2 if even and zero > least else 0
    return Grid(to, scale, np.asarray(zero).astype(to.numpy))


def open_ties(x: Tensor, grid: Grid) -> int:
    """The number of elements so near a tie that a rounding error decides their code.

    Exact ties are not counted if the standard decides them: exact numbers, a scale that is a power
    of two and an even zero point.
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
    """A grid for constants: symmetric; for unsigned integers, around the middle of the dtype.

    axis: None for a per-tensor scale, else a scale per index. block: a scale per block along the
    axis. Raises: Misfit.
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
    """The greatest absolute value of a tensor, per index of an axis, or per block along it."""
    if axis is None:
        return np.asarray(x.max())
    if not block:
        return np.asarray(x.max(tuple(i for i in range(x.ndim) if i != axis % x.ndim)))
    starts = range(0, x.shape[axis], block)
    return np.asarray(np.maximum.reduceat(x, list(starts), axis))


QUANTISED = (DType.FLOAT32, DType.FLOAT16, DType.BFLOAT16)
"""The float dtypes that QuantizeLinear takes."""
WIDTHS: tuple[tuple[float, tuple[DType, ...]], ...] = (
    (0.62, BYTES),
    (0.2, (DType.UINT16, DType.INT16)),
    (0.08, (DType.UINT4, DType.INT4)),
    (0.1, (DType.FLOAT8_E4M3FN, DType.FLOAT8_E5M2)),
)
"""(relative frequency, dtypes of codes) of the values that are computed."""
WEIGHT_WIDTHS = (
    (0.6, BYTES),
    (0.1, (DType.UINT16, DType.INT16)),
    (0.22, (DType.UINT4, DType.INT4)),
    (0.08, (DType.FLOAT8_E4M3FN, DType.FLOAT8_E5M2)),
)
"""(relative frequency, dtypes of codes) of constants."""
BLOCKS = (2, 4, 16, 16, 32, 32)
"""Sizes of blocks; compilers have kernels for 16 and more."""
AGAIN = 0.15
"""Probability that a reader gets its own DequantizeLinear."""
USUALLY = 0.85
"""Share of values whose codes have the model's usual dtype."""
DOUBLED = 0.08
"""Probability of a second pair (QuantizeLinear, DequantizeLinear) after the first one."""
SAME = 0.6
"""Probability that the second pair has the same scale and zero point."""


@dataclass(frozen=True, eq=False)
class Codes:
    """Names of a quantised tensor, of its scale and of its zero point (None if there is none)."""

    name: str
    scale: str
    zero: str | None
    grid: Grid

    @property
    def params(self) -> tuple[str, ...]:
        """The further inputs of QuantizeLinear and DequantizeLinear."""
        return (self.scale, self.zero) if self.zero is not None else (self.scale,)


@dataclass
class Held:
    """The representations of an original value in the twin.

    plain: name of the unquantised float; "" if there is none. back: of the dequantised float.
    """

    plain: str
    codes: list[Codes] = field(default_factory=list)
    back: str = ""


class Values:
    """The values of the original graph, in every representation that the twin needs.

    constants: names of the original graph's weights.
    """

    def __init__(self, draft: Draft, rng: random.Random, constants: Collection[str]) -> None:
        self.draft = draft
        self.rng = rng
        self.constants = frozenset(constants)
        self.held: dict[str, Held] = {}
        self.usual = rng.choice(drawn_width(rng, WIDTHS))
        """The usual dtype of codes: kernels want the same one for inputs and outputs."""

    def hold(self, name: str, plain: str = "", codes: Codes | None = None) -> None:
        """Record that the twin has a value of the original: as a float (default: with the same
        name), or as codes alone."""
        self.held[name] = Held("", [codes]) if codes else Held(plain or name)

    def type(self, name: str) -> TensorType:
        """The type that the value has as a float."""
        held = self.held[name]
        if held.plain:
            return self.draft.graph.type(held.plain)
        codes = held.codes[0]
        return self.draft.graph.type(codes.name).with_dtype(DType.of(codes.grid.scale.dtype))

    def read(self, name: str) -> str:
        """The name of the value as a float: dequantised if it has codes and is not a constant."""
        known = name not in self.constants and self.held[name].codes
        return self.through(name) if known else self.floats(name)

    def floats(self, name: str) -> str:
        """The name of the unquantised float, if there is one; otherwise of the dequantised one."""
        return self.held[name].plain or self.through(name)

    def through(self, name: str) -> str:
        """The name of the dequantised float. Raises: Misfit."""
        held = self.held[name]
        if not held.back or self.rng.random() < AGAIN:
            held.back = self.dequantised(self.codes(name), name)
            if self.rng.random() < DOUBLED and name not in self.constants:
                held.back = self._doubled(held.back, held.codes[0], name)
        return held.back

    def codes(self, name: str, among: Sequence[DType] = (), explicit: bool = False) -> Codes:
        """The value as per-tensor codes. among: admitted dtypes; empty: any.

        explicit: whether a zero point is required. Raises: Misfit.
        """
        for known in self.held[name].codes:
            fits = not among or known.grid.dtype in among
            if fits and known.grid.axis is None and (known.zero is not None or not explicit):
                return known
        found = self._coded(name, among, explicit)
        self.held[name].codes.append(found)
        return found

    def _coded(self, name: str, among: Sequence[DType], explicit: bool) -> Codes:
        """New per-tensor codes of a value."""
        of = self.type(name).dtype
        if of not in QUANTISED:
            raise Misfit(f"{of.value} is not quantised")
        to = self.width(among)
        plain = self.floats(name)
        grid = tensor_grid(self.rng, self.draft.values[plain], of, to, explicit)
        if name in self.constants:
            return self.stored(name, grid)
        return self._put(plain, grid, name)

    def width(self, among: Sequence[DType] = ()) -> DType:
        """A dtype for codes: mostly the model's usual one, if it is admitted."""
        if self.rng.random() < USUALLY and (not among or self.usual in among):
            return self.usual
        return self.rng.choice(among or drawn_width(self.rng, WIDTHS))

    def _put(self, plain: str, grid: Grid, stem: str) -> Codes:
        """The codes of a float on a new grid. Raises: Misfit."""
        scale, zero = self.parameters(grid, stem)
        return self.quantised(plain, scale, zero, grid, stem)

    def quantised(self, plain: str, scale: str, zero: str | None, grid: Grid, stem: str) -> Codes:
        """The codes of a float, given the names of scale and zero point. Raises: Misfit."""
        given = (scale,) if zero is None else (scale, zero)
        own = {"axis": grid.axis, "to": grid.dtype}
        (found,) = self.draft.call("QuantizeLinear", plain, *given, stem=f"{stem}_q", **own)
        return Codes(found, scale, zero, grid)

    def parameters(self, grid: Grid, stem: str) -> tuple[str, str | None]:
        """New constants for a grid: the names of its scale and of its zero point, if it has one."""
        scale = self.draft.constant(grid.scale, f"{stem}_s")
        return scale, None if grid.zero is None else self.draft.constant(grid.zero, f"{stem}_z")

    def stored(self, name: str, grid: Grid) -> Codes:
        """The codes of an original constant, stored as a new constant."""
        codes = self.draft.constant(grid.codes(self.array(name)), f"{name}_q")
        return Codes(codes, *self.parameters(grid, name), grid)

    def array(self, name: str) -> np.ndarray:
        """The elements of an original constant."""
        return array(self.draft.values[name], self.draft.graph.type(name).dtype)

    def dequantised(self, codes: Codes, stem: str) -> str:
        """The name of the float that DequantizeLinear makes of codes. Raises: Misfit."""
        block = codes.grid.block
        kind = "BlockDequantizeLinear" if block else "DequantizeLinear"
        own = {"axis": codes.grid.axis, "block_size": block}
        given = (codes.name, *codes.params)
        return self.draft.call(kind, *given, stem=f"{stem}_dq", **own)[0]

    def _doubled(self, back: str, first: Codes, stem: str) -> str:
        """A second pair after the first one, with the same or with a new scale and zero point."""
        if self.rng.random() < SAME:
            again = self.quantised(back, first.scale, first.zero, first.grid, stem)
            return self.dequantised(again, stem)
        of = self.draft.graph.type(back).dtype
        to = self.width()
        grid = tensor_grid(self.rng, self.draft.values[back], of, to)
        return self.dequantised(self._put(back, grid, stem), stem)

    # -- weights ------------------------------------------------------------------------------

    def weight(
        self, name: str, axis: int | None, among: Sequence[DType] = (), block: int | None = None
    ) -> Codes:
        """A constant as codes, with one scale, a scale per index of an axis, or a scale per block.

        Raises: Misfit if the value is not a constant.
        """
        if name not in self.constants or self.type(name).dtype not in QUANTISED:
            raise Misfit(f"{name} is no constant of floats")
        to = self.rng.choice(among or drawn_width(self.rng, WEIGHT_WIDTHS))
        return self.stored(name, weight_grid(self.rng, self.array(name), to, axis, block))

    def bias(self, name: str, left: Codes, right: Codes) -> tuple[np.ndarray, np.ndarray]:
        """A constant bias as int32, and its scale, which is the product of the operands' scales.

        Raises: Misfit if there is no such scale, or if the integers exceed 2^24.
        """
        if name not in self.constants or self.type(name).dtype is not DType.FLOAT32:
            raise Misfit(f"{name} is no constant bias")
        x, scale = self.array(name), np.asarray(left.grid.scale * right.grid.scale, np.float32)
        if x.ndim != 1 or right.grid.block or scale.shape not in ((), x.shape):
            raise Misfit("the scales of the product are not those of the bias")
        whole = np.rint(x.astype(np.float64) / scale)
        if not np.isfinite(whole).all() or np.abs(whole).max(initial=0) > 2**24:
            raise Misfit("the bias has too many steps")
        return whole.astype(np.int32), scale


def drawn_width(
    rng: random.Random, widths: Sequence[tuple[float, tuple[DType, ...]]]
) -> tuple[DType, ...]:
    """The dtypes of a random entry of `widths`."""
    shares, dtypes = zip(*widths)
    found: tuple[DType, ...] = rng.choices(dtypes, shares)[0]
    return found
