"""Elementwise operators: unary, binary and n-ary with NumPy broadcasting.

A usual spec declares `torch`, `valid` and `rounding` and nothing else:

    @operator
    class Log(Increasing):
        torch = staticmethod(torch.log)
        valid = ((1e-4, math.inf),)
        rounding = (8, 2)
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any, ClassVar

import torch
from torch import Tensor

from nnfuzz.ir.dtypes import FLOATS, NUMBERS, DType
from nnfuzz.ir.expr import Bool, or_
from nnfuzz.ir.types import TensorType
from nnfuzz.operators.draw import Draw
from nnfuzz.operators.families.broadcast import aligned, broadcast_shape, narrowed, partner_shape
from nnfuzz.operators.intervals import Interval, monotone, uncertain, unimodal
from nnfuzz.operators.operator import ANY_RANGE, In, OpSpec, Range, per_input
from nnfuzz.operators.unexportable import CHAINED_BYTES, SCALAR_DOUBLES, Unexportable


class Elementwise(OpSpec):
    """Every output element depends on one element of each input."""

    sharp = True
    carries_nan = True

    rounding: ClassVar[tuple[float, float]] = (0, 0)
    """Local rounding error in unit roundoffs: (relative to the output, absolute)."""
    codomain: ClassVar[Range] = ANY_RANGE
    """Bounds of the outputs, whatever the inputs are."""
    selects: ClassVar[bool] = False
    """Whether the first of three inputs is a condition that selects one of the others."""
    typing: ClassVar[int] = 0
    """How many inputs, the last ones, are read for their dtype only."""

    @per_input
    def value_range(self, *ranges: Range) -> Range:
        return clipped_range(self.within, self.codomain)

    @per_input
    def radius(self, u: float, y: Tensor, *xs: Tensor) -> Tensor | float:
        relative, absolute = self.rounding
        if relative == 0:
            return u * absolute
        return u * (relative * y.abs() + absolute) if absolute else u * relative * y.abs()

    @per_input
    def interval(self, *intervals: Interval) -> Sequence[Interval]:
        if self.monotone:
            return [monotone(self.torch, self.monotone, *intervals)]
        return [uncertain(self.torch, *intervals)]


class Unary(Elementwise):
    """One tensor in, one tensor of the same shape out."""

    takes_empty = True
    inputs = (In("T", FLOATS),)


class Branched(Unary):
    """A function that is monotone between its poles; `domain` keeps inputs away from the poles."""

    def poles(self, x: Interval) -> Tensor:
        """Mask of the elements whose interval holds a pole."""
        raise NotImplementedError

    def interval(self, *intervals: Interval) -> Sequence[Interval]:
        return [monotone(self.torch, self.monotone, *intervals).masked(self.poles(*intervals))]

    def feasible(self, *ranges: Range) -> bool:
        """Whether one number of a sample of the range is far enough from the poles."""
        lo, hi = clipped_range(ranges[0], (-1e9, 1e9))
        return _far_enough(type(self), tuple(self.attributes.items()), float(lo), float(hi))  # type: ignore[arg-type]


class Increasing(Unary):
    """A function that never decreases: it maps the ends of a range to the ends of the result."""

    monotone = (1,)

    def demanded(self, *ranges: Range) -> Range | None:
        """`valid` if it excludes most numbers; otherwise None."""
        return self.valid[0] if self.valid and self.valid[0][0] >= -1 else None  # type: ignore

    def value_range(self, *ranges: Range) -> Range:
        lo, hi = clipped_range(ranges[0], self.valid[0] if self.valid else None)
        least, most = _ends(type(self), tuple(self.attributes.items()), float(lo), float(hi))  # type: ignore[arg-type]
        codomain = self.codomain
        return (
            codomain[0] if math.isnan(least) else least,
            codomain[1] if math.isnan(most) else most,
        )


class Decreasing(Increasing):
    """A function that never increases."""

    monotone = (-1,)

    def value_range(self, *ranges: Range) -> Range:
        lo, hi = super().value_range(*ranges)
        return hi, lo


class Broadcasting(Elementwise):
    """Several tensors in, one tensor of their broadcast shape out."""

    inputs: ClassVar[tuple[In, ...]] = (In("T", NUMBERS), In("T"))
    takes_empty = True
    unexportable: ClassVar[tuple[Unexportable, ...]] = (SCALAR_DOUBLES,)

    @per_input
    def requires(self, *inputs: TensorType) -> Iterable[Bool]:
        for dims in aligned([t.shape for t in inputs]):
            for i, a in enumerate(dims):
                for b in dims[i + 1 :]:
                    if a is not b:
                        yield or_(a == b, a == 1, b == 1)

    @per_input
    def type_transfer(self, *inputs: TensorType) -> list[TensorType]:
        shape = broadcast_shape([t.shape for t in inputs])
        return [TensorType(self.output_dtype(*inputs), shape)]

    def complete(self, draw: Draw, first: TensorType, dtypes: Sequence[DType]) -> list[TensorType]:
        others = [TensorType(d, partner_shape(draw, first.shape)) for d in dtypes[1:]]
        return [first, *others]

    def infer_input_types(
        self, draw: Draw, first: TensorType, dtypes: Sequence[DType], output: TensorType
    ) -> list[TensorType]:
        whole = draw.integer(0, len(dtypes) - 1)
        return [
            TensorType(d, output.shape if i == whole else narrowed(draw, output.shape))
            for i, d in enumerate(dtypes)
        ]


class Binary(Broadcasting):
    """Two tensors of one type in, one of that type out."""


class Arithmetic(Binary):
    """Addition, subtraction, product, quotient. Before opset 14, 8- and 16-bit integers are
    cast."""

    exactness = "rounded"
    joining = "term"
    unexportable = (SCALAR_DOUBLES, CHAINED_BYTES)

    @per_input
    def interval(self, *intervals: Interval) -> Sequence[Interval]:
        if intervals[0].lo.is_floating_point():
            a, b = intervals
            return [self.of_itself(a) if a is b else self.floating(a, b)]
        # Integers wrap around, so the ends of an interval are no bounds.
        return [uncertain(self.torch, *intervals)]

    def floating(self, a: Interval, b: Interval) -> Interval:
        """The interval of a floating result."""
        return monotone(self.torch, self.monotone, a, b)

    def of_itself(self, a: Interval) -> Interval:
        """The interval if both operands are the same value."""
        return self.floating(a, a)

    def onnx(self, emit: Any, *values: str) -> str:
        dtype = emit.type(values[0]).dtype
        if emit.opset >= 14 or dtype.is_float or dtype.itemsize > 2:
            return emit(self.name, *values)
        wide = [emit("Cast", value, to=DType.INT32.onnx) for value in values]
        return emit("Cast", emit(self.name, *wide), to=dtype.onnx)


class Modular(Arithmetic):
    """Sum, difference, product: exact modulo 2^n for integers."""

    rounding = (1, 0)
    modular = True
    whole = "kept"

    @per_input
    def domain(self, *tensors: Tensor) -> list[Tensor]:
        return too_large(self.torch(*tensors))


class Variadic(Broadcasting):
    """One to four tensors of one type in, one of that type out."""

    sharp = False

    inputs = (In("T", NUMBERS),)
    variadic = (1, 4)


class Comparison(Broadcasting):
    """Two tensors in, booleans out; the result is uncertain where the intervals overlap."""

    edges = True
    monotone = (1, -1)

    output = DType.BOOL
    codomain = (0, 1)

    @per_input
    def proxy(self, *tensors: Tensor) -> Tensor:
        x, y = tensors
        return x - y if self.monotone[0] > 0 else y - x

    @per_input
    def value_range(self, *ranges: Range) -> Range:
        x, y = ranges
        pairs = [(0, 0)] if x is y else [(x[0], y[1]), (x[1], y[0])]
        ends = [value_at(self, *map(float, pair)) for pair in pairs]
        return min(ends), max(ends)

    def margins(self, *tensors: Tensor) -> list[Tensor]:
        x, y = tensors
        return [(x - y).abs()] if x.is_floating_point() else []

    @per_input
    def interval(self, *intervals: Interval) -> Sequence[Interval]:
        a, b = intervals
        if a is not b:
            return super().interval(a, b)
        same = self.torch(a.lo, a.lo)
        return [Interval(same, same, a.any)]


def value_at(op: OpSpec, *numbers: float) -> float:
    """The result of an elementwise operator for single numbers, in float64."""
    return _value_at(type(op), tuple(op.attributes.items()), numbers)  # type: ignore[arg-type]


@lru_cache(maxsize=1 << 14)
def _value_at(
    spec: type[OpSpec], attributes: tuple[tuple[str, Any], ...], numbers: tuple[float, ...]
) -> float:
    """`value_at`, cached: infinities, zeros and ones occur in every graph."""
    op = spec(**dict(attributes))
    tensors = [torch.tensor([x], dtype=torch.float64) for x in numbers]
    return float(op.torch(*tensors))


@lru_cache(maxsize=1 << 14)
def _ends(
    spec: type[OpSpec], attributes: tuple[tuple[str, Any], ...], lo: float, hi: float
) -> tuple[float, float]:
    """The results of a unary operator for two numbers, in float64."""
    least, most = (
        spec(**dict(attributes)).torch(torch.tensor([lo, hi], dtype=torch.float64)).tolist()
    )
    return least, most


@lru_cache(maxsize=1 << 12)
def _far_enough(
    spec: type[Branched], attributes: tuple[tuple[str, Any], ...], lo: float, hi: float
) -> bool:
    """The cached part of `Branched.feasible`."""
    terms = spec(**dict(attributes)).domain(torch.linspace(lo, hi, 17, dtype=torch.float64))
    return bool(torch.stack([term <= 0 for term in terms]).all(0).any())


def pointwise(op: OpSpec) -> bool:
    """Whether an operator maps element by element, so that its range follows from scalars."""
    return _pointwise(type(op))  # type: ignore[arg-type]


@lru_cache(maxsize=1 << 12)
def _pointwise(spec: type[OpSpec]) -> bool:
    return issubclass(spec, Elementwise) and all(p.ranks[0] == 0 for p in spec.inputs)


# -- numbers ----------------------------------------------------------------------------------


def clipped_range(range_: Range, bounds: Range | None) -> Range:
    """The part of a range inside `bounds`; if there is none, the nearest end of `bounds`."""
    if bounds is None:
        return range_
    (lo, hi), (least, most) = range_, bounds
    return min(max(lo, least), most), max(min(hi, most), least)


def products(x: Range, y: Range) -> Range:
    """Bounds of a product; 0 times infinity is 0."""
    corners = [a * b if a and b else 0.0 for a in x for b in y]
    return min(corners), max(corners)


def largest(x: Tensor) -> float:
    """Half of the largest finite number of a floating tensor's dtype."""
    return torch.finfo(x.dtype).max / 2


def too_large(y: Tensor) -> list[Tensor]:
    """Domain terms that keep a floating result `y` finite; none for integers, which wrap around."""
    return [y.abs() - largest(y)] if y.is_floating_point() else []


def exponent_limit(x: Tensor) -> float:
    """The largest exponent, minus one, whose exponential is finite in the dtype of `x`."""
    return math.log(torch.finfo(x.dtype).max) - 1


def itself(x: Tensor) -> Tensor:
    """`x`: a stand-in for functions that follow x in steps or between bounds."""
    return x


def leaking(x: Tensor) -> Tensor:
    """A nonzero derivative for negative `x`, for functions that are flat or falling there."""
    return torch.nn.functional.leaky_relu(x, 0.3)


def flags(violated: Tensor) -> Tensor:
    """A domain term for integers or booleans: 1 where the mask is set, else 0."""
    return violated.to(torch.float32)


def single(value: float) -> float:
    """A number rounded to float32, in which ONNX stores float attributes."""
    import numpy as np

    return float(np.float32(value))


class Gated(Unary):
    """A function like x for large x and like 0 for very negative x, with a minimum in between."""

    unexportable = (SCALAR_DOUBLES,)
    sharp = False
    least: Any = (0.0, 0.0)
    """Place and value of the function's minimum (to 0.1 %)."""

    def interval(self, *intervals: Interval) -> Sequence[Interval]:
        return [unimodal(self.torch, *intervals, *self.least)]  # type: ignore[arg-type]

    def proxy(self, *tensors: Tensor) -> Tensor:
        return leaking(*tensors)

    def value_range(self, *ranges: Range) -> Range:
        """Bounds of a function that falls until `least` and grows from there."""
        ((lo, hi),) = ranges
        at, least = self.least
        ends = [value_at(self, float(end)) for end in (lo, hi)]
        ends = [0.0 if math.isnan(y) else y for y in ends]  # at minus infinity
        return (1.001 * least if lo < at < hi else min(ends)), max(ends)
