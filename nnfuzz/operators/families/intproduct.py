"""Products of small integers minus zero points (matrix products and convolutions), and the
requantisation of QLinear operators."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, ClassVar, Self

import torch
from torch import Tensor

from nnfuzz.ir.dtypes import DType
from nnfuzz.ir.expr import Bool, Int, product
from nnfuzz.ir.types import TensorType
from nnfuzz.operators.attributes import Choice, Fields, Types
from nnfuzz.operators.draw import Draw
from nnfuzz.operators.families.broadcast import (
    factor_shapes,
    left_rank,
    multiplies,
    product_shape,
    right_factor,
)
from nnfuzz.operators.families.quantized import (
    SCALES,
    bounded,
    dyadic,
    quantised,
    shifted,
    shifted_interval,
    stepped,
    tie_distance,
    too_heavy,
    wide,
)
from nnfuzz.operators.families.shape import on_interval
from nnfuzz.operators.families.window import Convolution
from nnfuzz.operators.intervals import Interval, corners, everywhere, linear, monotone
from nnfuzz.operators.operator import OpSpec, Range

OUT_SCALES: Range = (0.03, 2.0)
"""Scales of results with which most usual sums do not saturate."""

Shape = tuple[Int, ...]


def as_scalar(param: Tensor) -> Tensor:
    """A per-tensor parameter as a scalar, although it may be a vector of one element."""
    return param.reshape(()) if param.dim() == 1 and param.numel() == 1 else param


class IntegerProduct(OpSpec):
    """f(a - zero point of a, b - zero point of b) on integers, summed exactly; subclasses define f.

    roles: one letter per input. "a", "b": operands; "p", "q": scale or (after it) zero point of a
    or b; "y": of the output; "c": bias.
    """

    roles: ClassVar[str]
    listed = Choice(lambda op, *types: op.listed_options(types), default=0)
    """Whether per-tensor parameters are vectors of one element in place of scalars."""

    def listed_options(self, types: Sequence[TensorType]) -> Sequence[int]:
        """Options of `listed`; if a's parameters are given already, only the matching one."""
        params = self.by_role("p", types)
        return (int(params[0].rank > 0),) if params else (0, 0, 0, 1)

    @classmethod
    def from_onnx(cls, fields: Fields, takes: Types, gives: Types) -> Self:
        pairs = [(r, t) for r, t in zip(cls.roles, takes) if r in "pq" and t.rank]
        listed = int(any(t.shape == (1,) for _, t in pairs))
        several = int(any(r == "q" and t.shape != (1,) for r, t in pairs))
        mine = {"listed": listed, "channels": several, "columns": several}
        sized = {"sized": int("kernel_shape" in fields)}
        return super().from_onnx({**fields, **mine, **sized}, takes, gives)

    def lists(self, a: TensorType, b: TensorType) -> bool:
        """Whether a vector of one element may replace a scalar."""
        return True

    @property
    def single(self) -> Shape:
        """The shape of a per-tensor parameter."""
        return (1,) if self.listed else ()

    # -- shapes -------------------------------------------------------------------------------

    def multiplies(self, a: TensorType, b: TensorType) -> Iterator[Bool]:
        """Conditions on the shapes of the operands."""
        raise NotImplementedError

    def product_shape(self, a: TensorType, b: TensorType) -> Shape:
        raise NotImplementedError

    def right_shape(self, draw: Draw, a: TensorType) -> Shape:
        """A random shape for b."""
        raise NotImplementedError

    def operand_shapes(self, draw: Draw, first: TensorType, out: TensorType) -> tuple[Shape, Shape]:
        """Shapes of a and b with which the output can have the shape of `out`."""
        raise NotImplementedError

    def param_shape(self, role: str, a: TensorType, b: TensorType) -> Shape:
        """The shape of the scale, zero point or bias that has the given role."""
        raise NotImplementedError

    def on_operand(self, role: str, param: Tensor, operand: Tensor) -> Tensor:
        """A scale or zero point, reshaped to broadcast to its operand."""
        raise NotImplementedError

    def on_result(self, role: str, param: Tensor, a: Tensor, b: Tensor) -> Tensor:
        """A scale or bias, reshaped to broadcast to the product of a and b."""
        raise NotImplementedError

    def multiply(self, a: Tensor, b: Tensor) -> Tensor:
        raise NotImplementedError

    def terms(self, a: Tensor, b: Tensor) -> int:
        """Number of products that add up to one element."""
        raise NotImplementedError

    def result_params(self, values: Sequence[Any]) -> list[Any]:
        """Scale and zero point of the result, as scalars; values may be tensors or intervals."""
        return [
            on_interval(as_scalar, value) if isinstance(value, Interval) else as_scalar(value)
            for value in self.by_role("y", values)
        ]

    def _is_single(self, shape: Shape) -> bool:
        """Whether a parameter of that shape is per-tensor."""
        if not self.listed:
            return not shape
        return len(shape) == 1 and shape[0].__class__ is int and shape[0] == 1

    def by_role(self, role: str, values: Sequence[Any]) -> list[Any]:
        return [v for r, v in zip(self.roles, values) if r == role]

    def operands(self, values: Sequence[Any]) -> tuple[Any, Any]:
        return values[0], values[self.roles.index("b")]

    def requires(self, *inputs: TensorType) -> Iterator[Bool]:
        a, b = self.operands(inputs)
        yield from self.multiplies(a, b)
        for role, param in zip(self.roles, inputs):
            if role not in "ab":
                shape = self.param_shape(role, a, b)
                if self._is_single(shape) and param.rank < 2 and self.lists(a, b):
                    shape = (1,) * param.rank
                yield param.rank == len(shape)
                for have, want in zip(param.shape, shape):
                    yield have == want

    def type_transfer(self, *inputs: TensorType) -> list[TensorType]:
        shape = self.product_shape(*self.operands(inputs))
        return [TensorType(self.output_dtype(*inputs), shape)]

    def complete(self, draw: Draw, first: TensorType, dtypes: Sequence[DType]) -> list[TensorType]:
        return self._typed(first.shape, self.right_shape(draw, first), dtypes)

    def infer_input_types(
        self, draw: Draw, first: TensorType, dtypes: Sequence[DType], output: TensorType
    ) -> list[TensorType]:
        return self._typed(*self.operand_shapes(draw, first, output), dtypes)

    def _typed(self, a: Shape, b: Shape, dtypes: Sequence[DType]) -> list[TensorType]:
        given = {"a": TensorType(dtypes[0], a), "b": TensorType(dtypes[0], b)}
        shapes = [
            given[role].shape if role in given else self.param_shape(role, given["a"], given["b"])
            for role in self.roles
        ]
        return [TensorType(d, s) for d, s in zip(dtypes, shapes)]

    # -- numbers ------------------------------------------------------------------------------

    def zeros(self, values: Sequence[Any]) -> Iterator[tuple[str, Any, Any]]:
        """Per operand: the role of its parameters, the operand itself, its zero point or None."""
        for role, operand in zip("pq", self.operands(values)):
            yield role, operand, (self.by_role(role, values) or [None])[-1]

    def factors(self, tensors: Sequence[Tensor]) -> list[Tensor]:
        """a and b without their zero points, in float64."""
        return [
            shifted(x, zero if zero is None else self.on_operand(role, zero, x))
            for role, x, zero in self.zeros(tensors)
        ]

    def total(self, *tensors: Tensor) -> Tensor:
        """The exact sum of products, in float64."""
        pair = self.factors(tensors)
        # ONNX Runtime convolves in float32 only, which PyTorch's exporters have to consider.
        small = self.terms(*pair) * 255**2 < 2**24
        y = self.multiply(*(x.float() if small else x for x in pair)).double()
        for bias in self.by_role("c", tensors):
            y = y + self.on_result("c", bias.double(), *pair)
        return y

    def total_interval(self, *intervals: Interval) -> Interval:
        """The interval of `total`, in float64."""
        pair = []
        for role, x, zero in self.zeros(intervals):
            if zero is not None:
                zero = on_interval(lambda t: self.on_operand(role, t, x.lo), zero)  # noqa: B023
            pair.append(shifted_interval(x, zero))
        y = linear(self.multiply, *pair, weights=(0, 1))
        for bias in self.by_role("c", intervals):
            moved = on_interval(lambda t: self.on_result("c", t, pair[0].lo, pair[1].lo), bias)
            y = monotone(torch.add, (1,), y, moved)
        return y if y.exact else Interval(y.lo.ceil(), y.hi.floor(), y.any)

    def domain(self, *tensors: Tensor) -> list[Tensor]:
        biases = [b.double().abs() - 2.0**24 for b in self.by_role("c", tensors)]
        scales = [x for role in "pqy" for x in self.by_role(role, tensors) if x.is_floating_point()]
        return [*bounded(*scales), *too_heavy(self.operands(tensors)[1]), *biases]


class InInt32(IntegerProduct):
    """The sum as int32, without a scale; zero points are optional."""

    roles = "abpq"
    variadic = (2, 4)
    output = DType.INT32

    def torch(self, *tensors: Tensor) -> Tensor:
        return self.total(*tensors).to(torch.int32)

    def proxy(self, *tensors: Tensor) -> Tensor:
        return self.total(*tensors)

    def interval(self, *intervals: Interval) -> Sequence[Interval]:
        return [self.total_interval(*intervals)]


class Requantised(IntegerProduct):
    """round(sum * scale of a * scale of b / scale of y) + zero point of y.

    The sum is exact. Only the last step rounds, in float32, in float64 or in fixed point.
    """

    output = "Y"
    valid = (None, SCALES, None, None, SCALES, None, OUT_SCALES)

    def torch(self, *tensors: Tensor) -> Tensor:
        zero = self.result_params(tensors)[1]
        return quantised(self._quotient(tensors), zero, DType.of(zero.dtype))

    def proxy(self, *tensors: Tensor) -> Tensor:
        return self._quotient(tensors)

    def _quotient(self, tensors: Sequence[Tensor]) -> Tensor:
        s, t, out = self._scales(tensors)
        factor = wide(s) * wide(t) / wide(out)
        return self.total(*tensors).to(factor.dtype) * factor

    def _scales(self, tensors: Sequence[Tensor]) -> list[Tensor]:
        """The scales of a, b and y; the first two broadcast to the result."""
        pair = self.operands(tensors)
        scales = [self.on_result(r, self.by_role(r, tensors)[0], *pair) for r in "pq"]
        return [*scales, self.result_params(tensors)[0]]

    def margins(self, *tensors: Tensor) -> list[Tensor]:
        v, zero = self._quotient(tensors), self.result_params(tensors)[1]
        return [tie_distance(v, [zero], DType.of(zero.dtype)) / v.abs().clamp(min=1)]

    def decided(self, u: float, *intervals: Interval) -> Sequence[Interval]:
        a, b = (x.lo for x in self.operands(intervals))
        scales = [
            on_interval(lambda t: self.on_result(r, t, a, b), self.by_role(r, intervals)[0])  # noqa: B023
            for r in "pq"
        ]
        out, zero = self.result_params(intervals)
        y = self.total_interval(*intervals)
        factor = corners(torch.div, corners(torch.mul, *scales), out)
        v = corners(torch.mul, y, factor).masked(everywhere(y.lo, out.lo <= 0))
        exact = dyadic(*scales, out) & (y.lo == y.hi) & (y.lo.abs() <= 2**24)
        error = torch.where(exact, 0.0, 5 * u * v.far().abs())
        return [stepped(v, error, [zero], DType.of(zero.lo.dtype))]


def _granularity(*options: int) -> Choice:
    """Whether b has parameters per channel; if the types are given, they decide."""

    def options_of(op: Any, *types: TensorType) -> Sequence[int]:
        params = op.by_role("q", types)
        if not params:
            return options
        shape = params[0].shape
        single = 1 in op.listed_options(types) and len(shape) == 1 and isinstance(shape[0], int)
        return (int(bool(shape) and not (single and shape[0] == 1)),)

    return Choice(options_of)


class MatMulProduct(IntegerProduct):
    """Matrix products. Parameters of b are per tensor, or per column if a is not a vector.

    ONNX also has parameters per row of a, but every runtime here, onnx.reference included,
    subtracts them from the columns instead.
    """

    columns = _granularity(0, 0, 1)

    def multiplies(self, a, b):
        yield from multiplies(a.shape, b.shape)

    def product_shape(self, a, b):
        return product_shape(a.shape, b.shape)

    def lists(self, a, b):
        """False for the product of two vectors, a scalar, to which a vector would add an axis."""
        return a.rank > 1 or b.rank > 1

    def right_shape(self, draw, a):
        return right_factor(draw, a.shape)

    @classmethod
    def input_rank(cls, draw, output_rank):
        return left_rank(draw, output_rank)

    def operand_shapes(self, draw, first, out):
        return factor_shapes(draw, first.shape, out.shape)

    def param_shape(self, role, a, b):
        if role != "q" or not self.columns or b.rank == 1 or a.rank == 1 < b.rank - 1:
            return self.single if self.lists(a, b) else ()
        return b.shape[-1:] if b.rank == 2 else (*b.shape[:-2], 1, b.shape[-1])

    def on_operand(self, role, param, operand):
        return as_scalar(param)

    def on_result(self, role, param, a, b):
        return as_scalar(param)

    def multiply(self, a, b):
        return torch.matmul(a, b)

    def terms(self, a, b):
        return a.shape[-1]

    def cost(self, *inputs):
        a, b = self.operands(inputs)
        return 2 * product((*self.product_shape(a, b), a.shape[-1]))

    def onnx_attributes(self):
        return {}


class ConvProduct(Convolution, IntegerProduct):
    """Convolutions. Parameters of the kernels are per tensor or per output channel."""

    channels = _granularity(0, 1)
    sized = Choice((0, 1), default=0)
    """Whether the model also states the shape of the kernels as an attribute."""

    def convolvees(self, *inputs):
        return self.operands(inputs)

    def multiplies(self, a, b):
        yield from self.convolves(a, b)

    def product_shape(self, a, b):
        return self.convolved_shape(a, b)

    def right_shape(self, draw, a):
        return self.kernel_shape(draw, a)

    def operand_shapes(self, draw, first, out):
        x = first.with_shape((out.shape[0], *first.shape[1:]))
        return x.shape, self.kernel_shape(draw, x, out.shape[1])

    def param_shape(self, role, a, b):
        return b.shape[:1] if role == "c" or (role == "q" and self.channels) else self.single

    def on_operand(self, role, param, operand):
        return param.reshape(-1, *[1] * (operand.dim() - 1)) if param.dim() else param

    def on_result(self, role, param, a, b):
        return param.reshape(-1, *[1] * (a.dim() - 2)) if param.dim() else param

    def multiply(self, a, b):
        return self.convolve(a, b)

    def terms(self, a, b):
        return product(b.shape[1:])

    def onnx_attributes(self):
        attributes = super().onnx_attributes()
        return {k: v for k, v in attributes.items() if k not in ("channels", "sized", "listed")}

    def onnx(self, emit, *values):
        kernel = emit.type(self.operands(values)[1]).shape[2:] if self.sized else None
        return emit(self.name, *values, kernel_shape=kernel, **self.onnx_attributes())
