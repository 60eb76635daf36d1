"""Matrix products."""

from __future__ import annotations

import torch

from nnfuzz.ir.dtypes import FLOATS, DType
from nnfuzz.ir.expr import or_, product
from nnfuzz.ir.types import TensorType
from nnfuzz.operators.attributes import Choice
from nnfuzz.operators.families.broadcast import (
    factor_shapes,
    left_rank,
    multiplies,
    narrowed,
    product_shape,
    right_factor,
)
from nnfuzz.operators.families.elementwise import products
from nnfuzz.operators.families.sums import Summing, largest, summed
from nnfuzz.operators.intervals import linear
from nnfuzz.operators.operator import In, operator
from nnfuzz.operators.unexportable import SCALAR_DOUBLE

SCALES = Choice((1.0, 1.0, 0.5, -1.0, 2.0, 0.25, 1.5))
"""Factors that float16 represents exactly; ONNX stores float attributes in float32."""


@operator
class MatMul(Summing):
    """(*batch, M, K) @ (*batch, K, N) -> (*batch, M, N); a vector lacks its M or N.

    Source: ONNX MatMul-13; numpy.matmul.
    """

    takes_empty = True
    inputs = (
        In("T", (*FLOATS, DType.INT32, DType.INT64, DType.UINT32, DType.UINT64), (1, 5)),
        In("T", ranks=(1, 5)),
    )

    def requires(self, a, b):
        yield from multiplies(a.shape, b.shape)

    def type_transfer(self, a, b):
        return [a.with_shape(product_shape(a.shape, b.shape))]

    def complete(self, draw, first, dtypes):
        return [first, TensorType(dtypes[1], right_factor(draw, first.shape))]

    @classmethod
    def input_rank(cls, draw, output_rank):
        return left_rank(draw, output_rank)

    def infer_input_types(self, draw, first, dtypes, output):
        shapes = factor_shapes(draw, first.shape, output.shape)
        return [TensorType(d, s) for d, s in zip(dtypes, shapes)]

    def cost(self, a, b):
        return 2 * self.type_transfer(a, b)[0].numel * a.shape[-1]

    def torch(self, a, b):
        return torch.matmul(a, b)

    def terms(self, a, b):
        return a.shape[-1]

    def value_range(self, a, b):
        return summed(a, b)

    unscaled = True

    def interval(self, a, b):
        return [linear(torch.matmul, a, b, weights=(0, 1))]


@operator
class Gemm(Summing):
    """alpha * op(A) @ op(B) + beta * C, C broadcast to (M, N) and optional.

    Source: ONNX Gemm-13.
    """

    takes_empty = True
    unexportable = (SCALAR_DOUBLE,)
    inputs = (
        In("T", FLOATS, (2, 2)),
        In("T", ranks=(2, 2), weight=True),
        In("T", ranks=(0, 2), weight=True),
    )
    exactness = ""
    variadic = (2, 3)
    alpha = SCALES
    beta = SCALES
    transA = Choice((0, 1))
    transB = Choice((0, 1))

    def _mk(self, a):
        return (a.shape[1], a.shape[0]) if self.transA else a.shape

    def _kn(self, b):
        return (b.shape[1], b.shape[0]) if self.transB else b.shape

    def requires(self, a, b, c=None):
        (m, k), (k2, n) = self._mk(a), self._kn(b)
        yield k == k2
        if c is not None:
            for have, want in zip(reversed(c.shape), (n, m)):
                yield or_(have == want, have == 1)

    def type_transfer(self, a, b, c=None):
        return [a.with_shape((self._mk(a)[0], self._kn(b)[1]))]

    def complete(self, draw, first, dtypes):
        m, k = self._mk(first)
        return self._typed(draw, first.shape, k, (m, draw.dim(2)), dtypes)

    def infer_input_types(self, draw, first, dtypes, output):
        m, k = output.shape[0], self._mk(first)[1]
        return self._typed(draw, (k, m) if self.transA else (m, k), k, output.shape, dtypes)

    def _typed(self, draw, a, k, out, dtypes):
        b = (out[1], k) if self.transB else (k, out[1])
        shapes = (a, b, narrowed(draw, out))
        return [TensorType(d, s) for d, s in zip(dtypes, shapes)]

    def cost(self, a, b, *c):
        return 2 * product((*a.shape, self._kn(b)[1]))

    def torch(self, a, b, c=None):
        y = torch.matmul(a.t() if self.transA else a, b.t() if self.transB else b)
        if self.alpha != 1:
            y = y * self.alpha
        if c is None:
            return y
        return y + (c if self.beta == 1 else c * self.beta)

    def interval(self, *intervals):
        return [linear(self.torch, *intervals, weights=(0, 1), absolute=self.absolute)]

    def value_range(self, a, b, *c):
        terms = [products(summed(a, b), (self.alpha, self.alpha))]
        terms += [products(x, (self.beta, self.beta)) for x in c]
        return sum(lo for lo, _ in terms), sum(hi for _, hi in terms)

    def terms(self, a, b, *c):
        return a.shape[0 if self.transA else 1] + 1

    def absolute(self, *tensors):
        plain = Gemm(**{**self.attributes, "alpha": abs(self.alpha), "beta": abs(self.beta)})
        return plain.torch(*[t.abs() for t in tensors])

    def domain(self, a, b, *c):
        """The product before alpha must be finite as well."""
        plain = Gemm(**{**self.attributes, "alpha": max(1.0, abs(self.alpha)), "beta": 2.0})
        return [plain.absolute(a, b, *c) - largest(a) / 2]
