"""Products of floats with quantised weights."""

from __future__ import annotations

from typing import Any, ClassVar

import torch

from nnfuzz.ir.dtypes import DType
from nnfuzz.ir.types import tensor_types
from nnfuzz.operators.attributes import Choice
from nnfuzz.operators.families.composite import Composite
from nnfuzz.operators.families.intproduct import MatMulProduct, Requantised
from nnfuzz.operators.families.quantized import BYTES, SCALES
from nnfuzz.operators.intervals import corners, monotone
from nnfuzz.operators.operator import In
from nnfuzz.operators.rounding import sum_radius

from ..quantize import DynamicQuantizeLinear
from . import microsoft

SCALE = In("S", (DType.FLOAT32,), (0, 1), weight=True, narrow=True)


def _columns(op, *types):
    params = op.by_role("q", types)
    return (params[0].rank,) if params else (0, 0, 1)


COLUMNS = Choice(_columns)
"""Whether the weights have parameters per column; where types are given, as they have it."""


class TimesMatrix(MatMulProduct):
    """The second factor is a matrix of weights; its parameters are for all or per column."""

    columns = COLUMNS
    weight = 2.0  # few values are bytes
    listed = Choice((0,))

    def right_shape(self, draw, a):
        return (a.shape[-1], draw.dim(2))

    def operand_shapes(self, draw, first, out):
        return (*out.shape[:-1], first.shape[-1]), (first.shape[-1], out.shape[-1])

    @classmethod
    def input_rank(cls, draw, output_rank):
        return output_rank

    def param_shape(self, role, a, b):
        per_column = role == "c" or (role == "q" and self.columns)
        return b.shape[-1:] if per_column else self.single

    @classmethod
    def signatures(cls):
        """Signed numbers are multiplied by signed weights only."""
        found = super().signatures()
        return [s for s in found if (s[0]["A"], s[0]["B"]) != (DType.INT8, DType.UINT8)]


@microsoft
class MatMulIntegerToFloat(TimesMatrix):
    """(a - zero point) @ (b - zero point) times both scales, plus a vector.

    Source: com.microsoft.MatMulIntegerToFloat-1.
    """

    roles = "abpqpqc"
    variadic = (4, 7)
    output = "S"
    valid = (None, None, SCALES, SCALES)
    inputs = (
        In("A", BYTES, (2, 4)),
        In("B", BYTES, (2, 2), weight=True),
        SCALE,
        In("S", ranks=(0, 1), weight=True, narrow=True),
        In("A", ranks=(0, 1), weight=True),
        In("B", ranks=(0, 1), weight=True),
        In("S", ranks=(1, 1), weight=True),
    )

    def zeros(self, values):
        for role, operand in zip("pq", self.operands(values)):
            _, *zero = self.by_role(role, values)
            yield role, operand, zero[0] if zero else None

    def torch(self, *tensors):
        """Raises: ValueError for parameters that only broadcasting would fit: kernels read past
        their ends."""
        sizes = [self.param_shape(role, *tensors[:2]) for role in self.roles]
        if any(tuple(x.shape) != tuple(s) for x, s in zip(tensors[2:], sizes[2:])):
            raise ValueError("a scale, a zero point or the vector has another size")
        whole = self.total(*tensors[:6])
        s, t = tensors[2:4]
        y = whole.to(s.dtype) * (s * t)
        return y + tensors[6] if len(tensors) == 7 else y

    def interval(self, *intervals):
        factor = corners(torch.mul, intervals[2], intervals[3])
        y = corners(torch.mul, self.total_interval(*intervals[:6]), factor)
        return [monotone(torch.add, (1,), y, intervals[6]) if len(intervals) == 7 else y]

    def radius(self, u, y, *xs):
        """The factors may be scaled before they are multiplied, so that every term is rounded three
        times; so are the sum and what is added to it."""
        a, b = (factor.abs() for factor in self.factors(xs[:6]))
        size = self.multiply(a, b) * (xs[2] * xs[3]).abs()
        added = xs[6].abs() if len(xs) == 7 else 0.0
        return sum_radius(u, self.terms(a, b), size) + u * (2 * size + 4 * added + y.abs())

    def domain(self, *tensors):
        return super().domain(*tensors[:6])


@microsoft
class DynamicQuantizeMatMul(Composite):
    """MatMulIntegerToFloat of a tensor that is quantised over its own range.

    Source: com.microsoft.DynamicQuantizeMatMul-1.
    """

    valid = (None, None, SCALES)
    inputs = (
        In("S", (DType.FLOAT32,), (2, 4)),
        In("B", BYTES, (2, 2), weight=True),
        In("S", ranks=(0, 1), weight=True, narrow=True),
        In("B", ranks=(0, 1), weight=True),
        In("S", ranks=(1, 1), weight=True),
    )
    variadic = (3, 5)
    output = "S"
    columns = COLUMNS

    def requires(self, a, b, scale, *rest):
        yield a.shape[-1] == b.shape[0]
        for x in (scale, *rest[:1]):
            yield x.rank == self.columns
            yield from (n == b.shape[1] for n in x.shape)
        yield from (x.shape[0] == b.shape[1] for x in rest[1:])

    def type_transfer(self, a, b, *_):
        return [a.with_shape((*a.shape[:-1], b.shape[1]))]

    def complete(self, draw, first, dtypes):
        return self._typed(first.shape, draw.dim(2), dtypes)

    def infer_input_types(self, draw, first, dtypes, output):
        return self._typed((*output.shape[:-1], first.shape[-1]), output.shape[-1], dtypes)

    def _typed(self, a, n, dtypes):
        param = (n,) if self.columns else ()
        return tensor_types(dtypes, a, (a[-1], n), param, param, (n,))

    def by_role(self, role, inputs):
        """The parameters of b, for the choice of `columns`."""
        return inputs[2:4]

    def cost(self, a, b, *_):
        return 2 * a.elements * b.shape[1]

    def compose(self, apply, a, b, scale, *rest):
        q, s, z = apply(DynamicQuantizeLinear(), a)
        zero = rest[:1]
        given = (q, b, s, scale, z, *zero, *rest[1:])
        return [apply(MatMulIntegerToFloat(columns=self.columns, listed=0), *given)]

    def onnx(self, emit, *values):
        return emit(self.name, *values)


@microsoft
class QGemm(TimesMatrix, Requantised):
    """Quantised a @ b, or a @ b^T, plus integers. Source: com.microsoft.QGemm-1."""

    roles = "appbqqcyy"
    valid: ClassVar[Any] = (None, SCALES, None, None, SCALES, None, None, Requantised.valid[-1])
    inputs = (
        In("A", BYTES, (2, 2)),
        SCALE,
        In("A", ranks=(0, 1), weight=True),
        In("B", BYTES, (2, 2), weight=True),
        In("S", ranks=(0, 1), weight=True, narrow=True),
        In("B", ranks=(0, 1), weight=True),
        In("C", (DType.INT32,), (1, 1), weight=True),
        In("S", ranks=(0, 1), weight=True, narrow=True),
        In("A", ranks=(0, 1), weight=True),
    )
    output = "A"
    transB = Choice((0, 1), default=0)

    def _turned(self, shape):
        """The shape of b as it is multiplied, or as it is stored."""
        return (shape[1], shape[0]) if self.transB else shape

    def _as_factor(self, b):
        return b.with_shape(self._turned(b.shape))

    def multiplies(self, a, b):
        yield from super().multiplies(a, self._as_factor(b))

    def product_shape(self, a, b):
        return super().product_shape(a, self._as_factor(b))

    def right_shape(self, draw, a):
        return self._turned(super().right_shape(draw, a))

    def operand_shapes(self, draw, first, out):
        a, b = super().operand_shapes(draw, first, out)
        return a, self._turned(b)

    def param_shape(self, role, a, b):
        return super().param_shape(role, a, self._as_factor(b))

    def on_operand(self, role, param, operand):
        found = super().on_operand(role, param, operand)
        return found.unsqueeze(-1) if role == "q" and self.transB and found.dim() else found

    def multiply(self, a, b):
        return super().multiply(a, b.t() if self.transB else b)

    def onnx(self, emit, *values):
        return emit(self.name, *values, transB=self.transB)
