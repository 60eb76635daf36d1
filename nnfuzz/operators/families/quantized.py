"""Quantisation: numbers as small integers, q = saturate(round(v / scale) + zero point).

A correct implementation may have rounding errors in the quotient (it may multiply by the
reciprocal, or use fixed point), so near a tie the result is one of two integers: `stepped` gives
both, `tie_distance` the distance from a tie. Exact ties go to the even integer.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor

from nnfuzz.ir.dtypes import DType
from nnfuzz.ir.expr import Bool, Int
from nnfuzz.ir.types import TensorType
from nnfuzz.operators.attributes import Choice, Fields, Types
from nnfuzz.operators.carriers import rounded
from nnfuzz.operators.draw import Draw
from nnfuzz.operators.families.shape import on_interval, signed
from nnfuzz.operators.intervals import Interval, joined, monotone
from nnfuzz.operators.operator import OpSpec, Range, per_input

BYTES = (DType.UINT8, DType.INT8)
SCALES: Range = (2.0**-8, 0.5)
"""Scales that are drawn: with usual numbers, some elements saturate and most do not."""
ADMITTED_SCALES: Range = (2.0**-40, 2.0**40)
"""Scales with which quotients and products of usual numbers are finite and normal."""
REDUCED = 64
"""Greatest magnitude of int8 weights. On x86 without VNNI, ONNX Runtime adds pairs of products in
int16 and saturates, according to its documentation of quantisation ("reduce_range")."""


def wide(x: Tensor) -> Tensor:
    """A float tensor in float32, or in float64 if it is that."""
    return x if x.dtype is torch.float64 else x.float()


def quantised(v: Tensor, zero: Tensor | None, to: DType) -> Tensor:
    """saturate(round(v) + zero point) of a quotient v; 8-bit floats have no zero point."""
    if to.is_float:
        return rounded(v, to)
    steps = wide(v).round()
    if zero is not None:
        steps = steps + zero.to(steps.dtype)
    return steps.clamp(*to.limits).to(to.torch)


def stepped(v: Interval, error: Tensor | float, zero: Sequence[Interval], to: DType) -> Interval:
    """The interval of `quantised` for a quotient v with an error of up to `error` (broadcast)."""
    lo = quantised(v.lo - error, zero[0].lo if zero else None, to)
    hi = quantised(v.hi + error, zero[0].hi if zero else None, to)
    return Interval(lo, hi, joined(v, *zero, like=lo))


def tie_distance(v: Tensor, zero: Sequence[Tensor], to: DType) -> Tensor:
    """Distance of quotients from the nearest tie whose rounding changes the result."""
    v = wide(v)
    if to.is_float:
        ties = _ties(to).to(v.dtype)
        above = torch.searchsorted(ties, v.contiguous()).clamp(max=len(ties) - 1)
        return torch.minimum((v - ties[above]).abs(), (v - ties[(above - 1).clamp(min=0)]).abs())
    lo, hi = to.limits
    offset = zero[0].to(v.dtype) if zero else torch.zeros((), dtype=v.dtype)
    tie = (v.floor() + 0.5).clamp(lo - offset + 0.5, hi - offset - 0.5)
    return (v - tie).abs()


@cache
def _ties(to: DType) -> Tensor:
    """The numbers half-way between two neighbours of an 8-bit float dtype, ascending."""
    numbers = np.arange(256, dtype=np.uint8).view(to.numpy).astype(np.float64)
    numbers = np.unique(numbers[np.isfinite(numbers)])
    return torch.from_numpy((numbers[1:] + numbers[:-1]) / 2)


def dyadic(*intervals: Interval) -> Tensor:
    """Mask of elements that are powers of two in every interval, so they divide exactly."""
    masks = [(b.lo == b.hi) & (b.lo.abs().frexp().mantissa == 0.5) for b in intervals]
    every = masks[0]
    for mask in masks[1:]:
        every = every & mask
    return every


def bounded(*scales: Tensor) -> list[Tensor]:
    """Domain terms that keep scales within `ADMITTED_SCALES`."""
    lo, hi = ADMITTED_SCALES
    return [term for scale in map(wide, scales) for term in (lo - scale, scale - hi)]


# -- integers that add up ---------------------------------------------------------------------


def shifted(x: Tensor, zero: Tensor | None) -> Tensor:
    """Integers minus their zero point, in float64, in which products and sums are exact."""
    return x.double() if zero is None else x.double() - zero.double()


def shifted_interval(x: Interval, zero: Interval | None) -> Interval:
    """The interval of `shifted`."""
    if zero is None:
        return monotone(torch.Tensor.double, (1,), x)
    return monotone(shifted, (1, -1), x, zero)


def too_heavy(w: Tensor) -> list[Tensor]:
    """Domain terms that keep int8 weights within `REDUCED`."""
    return [(w.int().abs() - REDUCED).float()] if w.dtype is torch.int8 else []


# -- granularity ------------------------------------------------------------------------------


def _axis(draw: Draw, op: Any, first: TensorType, *params: TensorType) -> int | None:
    whole = params[0].rank == 0 if params else draw.chance(0.5)
    if first.rank == 0 or whole:
        return None
    return signed(draw, [draw.integer(0, first.rank - 1)], first.rank)[0]


def _unread(draw: Draw, op: Any, first: TensorType, *params: TensorType) -> int | None:
    if op.axis is not None or not first.rank or draw.chance(0.7):
        return None
    return draw.integer(-first.rank, first.rank - 1)


class Scaled(OpSpec):
    """An operator on a tensor with a scale, and perhaps a zero point, per tensor or per index."""

    axis: Any = Choice(by=_axis)
    """None for a per-tensor scale."""
    unread: Any = Choice(by=_unread, default=None)
    """The axis that a model states beside a per-tensor scale, where it has no meaning."""
    listed: Any = Choice(by=lambda *_: 0, default=0)
    """Whether a per-tensor scale is a vector of one element, as in some imported models; by the
    standard, such a vector is a scale per index of an axis."""

    @classmethod
    def from_onnx(cls, fields: Fields, takes: Types, gives: Types) -> Self:
        x, scale = takes[:2]
        axis = fields.get("axis", 1)
        there = -x.rank <= axis < x.rank
        single = not scale.rank or (scale.shape == (1,) and not (there and x.shape[axis] == 1))
        precision = next((d for d in DType if d.onnx == fields.get("precision")), None)
        mine = {
            "axis": None if single else axis,
            "unread": axis if single and there and axis != 1 else None,
            "listed": int(single and scale.rank > 0),
            "to": gives[0].dtype,
            "typed": int(bool(fields.get("output_dtype"))),
            "precision": precision,
        }
        return super().from_onnx({**fields, **mine}, takes, gives)

    def scale_shape(self, x: TensorType) -> tuple[Int, ...]:
        """The shape of scale and zero point."""
        return (1,) * self.listed if self.axis is None else (x.shape[self.axis],)

    @per_input
    def requires(self, x: TensorType, *params: TensorType) -> Iterator[Bool]:
        yield self.axis is None or -x.rank <= self.axis < x.rank
        if self.unread is not None:
            yield self.axis is None
            yield -x.rank <= self.unread < x.rank
        yield not self.listed or self.axis is None
        for param in params:
            shape = self.scale_shape(x)
            yield param.rank == len(shape)
            for have, want in zip(param.shape, shape):
                yield have == want

    def complete(self, draw: Draw, first: TensorType, dtypes: Sequence[DType]) -> list[TensorType]:
        shape = self.scale_shape(first)
        return [first, *(TensorType(d, shape) for d in dtypes[1:])]

    def domain(self, x: Tensor, scale: Tensor, *zero: Tensor) -> list[Tensor]:
        return bounded(scale)

    def layout(self) -> dict[str, Any]:
        """The ONNX attributes that say to which elements a scale belongs."""
        axis = self.unread if self.axis is None else self.axis
        return {"axis": axis, "block_size": getattr(self, "block_size", None)}

    def spread(self, param: Tensor, x: Tensor) -> Tensor:
        """A scale or zero point, reshaped to broadcast to `x`."""
        if self.axis is None:
            return param.reshape(()) if self.listed else param
        shape = [1] * x.dim()
        shape[self.axis] = x.shape[self.axis]
        return param.reshape(shape)

    def spread_interval(self, param: Interval, x: Interval) -> Interval:
        """The interval of `spread`."""
        return on_interval(lambda t: self.spread(t, x.lo), param)


class Blocks(Scaled):
    """One scale per block of `block_size` elements along an axis; the last block may be smaller.

    Not for vectors: ONNX Runtime takes the scale of a single block for a per-tensor scale.
    """

    axis = Choice(by=lambda draw, op, first, *_: draw.integer(-first.rank, first.rank - 1))
    block_size = Choice((2, 3, 4, 8, 16, 32))

    def scale_shape(self, x: TensorType) -> tuple[Int, ...]:
        shape = list(x.shape)
        shape[self.axis] = (shape[self.axis] + self.block_size - 1) // self.block_size
        return tuple(shape)

    def spread(self, param: Tensor, x: Tensor) -> Tensor:
        axis = self.axis % x.dim()
        repeated = param.repeat_interleave(self.block_size, axis)
        return repeated.narrow(axis, 0, x.shape[axis])
