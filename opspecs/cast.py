"""Conversion between element types."""

from __future__ import annotations

import math
from typing import ClassVar

import torch

from nnfuzz.ir.dtypes import ALL, FLOAT8S, INT4S, DType
from nnfuzz.operators.attributes import Choice
from nnfuzz.operators.carriers import rounded
from nnfuzz.operators.families.elementwise import Unary, clipped_range, flags, itself
from nnfuzz.operators.intervals import Interval, holds, monotone, uncertain
from nnfuzz.operators.operator import ANY_RANGE, In, operator
from nnfuzz.operators.unexportable import Unexportable

EXPORTERS = ("torchscript", "dynamo")


@operator
class Cast(Unary):
    """Floats are truncated towards zero, integers keep their low bits, anything but 0 is true.

    A float outside the integer's range is undefined. 8-bit floats saturate; with `saturate` = 0
    inputs stay within their range, since beyond it some become NaN and others infinite. Integers of
    4 bits are rounded to nearest; ties are not compared, because ONNX Runtime rounds them away from
    zero. Source: ONNX Cast-21, "4 bit integer types" of its documentation.
    """

    merges = ("Cast",)
    inputs = (In("T", ALL),)
    output = "to"
    unset: ClassVar = {"round_mode": "of float8e8m0, which holds powers of two only"}
    whole = "kept"
    to = Choice(ALL)
    saturate = Choice(lambda op, *_: (1, 1, 0) if op.to in FLOAT8S else (1,), default=1)

    @classmethod
    def from_onnx(cls, fields, takes, gives):
        return cls(to=gives[0].dtype, saturate=fields.get("saturate", 1))

    def torch(self, x, *_):
        if self.to in INT4S and x.is_floating_point():
            x = x.round()
        return rounded(x, self.to) if self.to.is_float else x.to(self.to.torch)

    @property
    def edges(self):  # type: ignore[override]
        """Every float type with infinities keeps infinities and NaN."""
        return self.to.is_float and self.to not in FLOAT8S

    @property
    def modular(self):  # type: ignore[override]
        return not self.to.is_float

    def proxy(self, x, *_):
        return x.abs() if self.to.is_bool else x

    def onnx_attributes(self):
        return {"to": self.to.onnx, **self._unsaturated()}

    def _unsaturated(self):
        return {} if self.saturate or self.to not in FLOAT8S else {"saturate": 0}

    def _holds_all(self):
        """Whether no number is too large for the target."""
        return self.to.is_bool or (self.to in FLOAT8S and self.saturate)

    def bounds(self, source: DType):
        """The range of values that the target holds; unbounded where every value of the source is
        allowed."""
        exact = not (source.is_float or self.to.is_float)
        if exact or self._holds_all():
            return ANY_RANGE
        lo, hi = self.to.limits
        return 0.999 * lo, 0.999 * hi

    def domain(self, x, *_):
        source = DType.of(x.dtype)
        (lo, hi), (least, most) = self.bounds(source), source.limits
        if lo <= least and most <= hi:
            return []
        wide = x if source.is_float else x.to(torch.float64)
        return [lo - wide, wide - hi]

    def feasible(self, x, *_):
        if self._holds_all():
            return True
        lo, hi = self.to.limits
        return x[0] <= 0.999 * hi and x[1] >= 0.999 * lo

    def demanded(self, *_):
        """The range of an unsigned or small integer target: few floats lie in it by chance."""
        return self.to.limits if self.to.is_int and self.to.limits[0] >= -(1 << 15) else None

    def value_range(self, x, *_):
        return (0, 1) if self.to.is_bool else self._fitting(x)

    def _fitting(self, x):
        lo, hi = self.to.limits
        if self.to.is_float:
            return clipped_range(x, (lo, hi))
        inside = lo <= x[0] and x[1] <= hi
        if self.to in INT4S and inside:
            return round(x[0]), round(x[1])
        return (math.trunc(x[0]), math.trunc(x[1])) if inside else ANY_RANGE

    def margins(self, x, *_):
        if not x.is_floating_point() or self.to.is_float:
            return []
        if self.to.is_bool:
            return [x.abs()]
        if self.to in INT4S:
            return [(x - x.floor() - 0.5).abs()]
        return [torch.where(x.abs() < 0.5, 1 - x.abs(), (x - x.round()).abs())]

    def interval(self, x, *_):
        source = x.lo.dtype
        if self.to.is_float and source.is_floating_point:
            # A compiler may leave the rounding out, or compute in float32 in between.
            los, his = ([end, self.torch(end).to(source)] for end in (x.lo, x.hi))
            if self.to.itemsize < 4:
                los, his = ([*ends, ends[0].float().to(source)] for ends in (los, his))
            return [Interval(torch.stack(los).amin(0), torch.stack(his).amax(0), x.any)]
        if self.to.is_bool:
            zero = (x.lo == 0) & (x.hi == 0)
            return [Interval(~holds(x), ~zero, x.any)] if source is not torch.bool else [x]
        wraps = not (self.to.is_float or source.is_floating_point or source is torch.bool)
        return [uncertain(self.torch, x) if wraps else monotone(self.torch, (1,), x)]

    def undefined(self, x, *_):
        if not self.to.is_int or not x.lo.is_floating_point():
            return None
        least, most = self.to.limits
        if self.to in INT4S:
            tie = x.lo - x.lo.floor() == 0.5
            return tie | (x.lo <= least - 0.5) | (x.hi >= most + 0.5)
        return (x.lo <= float(least - 1)) | (x.hi >= float(most + 1))

    def radius(self, u, y, x, *_):
        """`u` is the target's unit roundoff. A compiler may keep digits that the target cannot
        hold, see `interval`."""
        lost = torch.where(y == 0, x.to(y.dtype).abs(), u * y.abs())
        return torch.where(x == y, 0.0, lost) if self.to.is_float else 0.0


@operator
class CastLike(Cast):
    """Cast to the dtype of a second tensor, whose values and shape are ignored.

    Source: ONNX CastLike-15.
    """

    since = 15
    typing = 1
    unexportable = tuple(Unexportable(e, "drops the second input") for e in EXPORTERS)
    inputs = (In("T", ALL), In("L", ALL))  # type: ignore[assignment]

    @classmethod
    def _output_dtypes(cls, binding):
        return (binding["L"],)

    def requires(self, x, like):
        yield like.dtype is self.to

    def onnx_attributes(self):
        return self._unsaturated()


def _same_width(source: DType) -> tuple[DType, ...]:
    """Types that may hold the bits of a type: floats only for floats, no booleans."""
    return tuple(
        d
        for d in ALL
        if d.itemsize == source.itemsize
        and (d in INT4S) == (source in INT4S)
        and not d.is_bool
        and (source.is_float or not d.is_float)
    )


_BITS = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
"""Integers that hold the bits of a number, by its size in bytes."""


@operator
class BitCast(Unary):
    """The bits of a number, read as another type of the same width.

    Integers are not reinterpreted as floats: nearly all of them would be tiny or NaN. Source: ONNX
    BitCast-26.
    """

    since = 26
    unexportable = tuple(Unexportable(e, "stays below opset 26") for e in EXPORTERS)
    weight = 0.5
    inputs = (In("T", ALL),)
    output = "to"
    modular = True
    source = Choice(by=lambda draw, op, x, *_: x.dtype)
    to = Choice(lambda op, x, *_: _same_width(x.dtype))

    @classmethod
    def from_onnx(cls, fields, takes, gives):
        return cls(source=takes[0].dtype, to=gives[0].dtype)

    @classmethod
    def _output_dtypes(cls, binding):
        return _same_width(binding["T"])

    def requires(self, x):
        yield x.dtype is self.source
        yield self.to in _same_width(self.source)

    def torch(self, x):
        bits = _BITS[self.source.itemsize]
        if self.source.is_float:
            x = x.to(getattr(torch, self.source.value)).view(bits)
        x = x.to(bits)
        if self.to.is_float:
            x = x.view(getattr(torch, self.to.value))
        return x.to(self.to.torch)

    proxy = staticmethod(itself)

    def domain(self, x):
        return [flags(~torch.isfinite(self.torch(x)))] if self.to.is_float else []

    def undefined(self, x):
        """Elements that may be zero: the oracle does not follow the sign of zero."""
        return x.lo == 0 if self.source.is_float and not self.to.is_float else None

    def onnx_attributes(self):
        return {"to": self.to.onnx}
