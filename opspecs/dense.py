"""Matrix products, sums of products along labelled axes, determinants."""

from __future__ import annotations

import math

import torch

from nnfuzz.ir.dtypes import FLOATS, DType
from nnfuzz.ir.expr import Int, or_, product
from nnfuzz.ir.types import TensorType, tensor_types
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
from nnfuzz.operators.families.equation import labels_of, random_equation, ranks
from nnfuzz.operators.families.sums import Summing, largest, summed
from nnfuzz.operators.intervals import Interval, linear
from nnfuzz.operators.operator import ANY_RANGE, ConstraintError, In, OpSpec, operator
from nnfuzz.operators.rounding import by_squares, sum_radius, underflow
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
        return tensor_types(dtypes, *factor_shapes(draw, first.shape, output.shape))

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
        return tensor_types(dtypes, a, b, narrowed(draw, out))

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


@operator
class Einsum(Summing):
    """Sum of products: axes with the same label are paired, labels that the result lacks are summed
    over.

    Source: ONNX Einsum-12.
    """

    since = 12
    inputs = (In("T", (*FLOATS, DType.INT32, DType.INT64), (1, 5)),)
    variadic = (1, 3)
    equation = Choice(by=lambda draw, op, first, *_: random_equation(draw, first.rank))

    def _labels(self, inputs):
        return labels_of(self.equation, [len(x.shape) for x in inputs])

    def _fitting_labels(self, inputs):
        return self._of_ranks([len(x.shape) for x in inputs])

    def _of_ranks(self, ranks):
        labels = labels_of(self.equation, ranks)
        if labels is None:
            raise ConstraintError(f"{self!r} does not admit inputs of ranks {ranks}")
        return labels

    def _sizes(self, inputs):
        """Size by label, from its first appearance."""
        sizes: dict[str, Int] = {}
        for term, x in zip(self._fitting_labels(inputs).terms, inputs):
            for label, size in zip(term, x.shape):
                sizes.setdefault(label, size)
        return sizes

    def requires(self, *inputs):
        labels = self._labels(inputs)
        yield labels is not None
        if labels is not None:
            sizes = self._sizes(inputs)
            for term, x in zip(labels.terms, inputs):
                for label, size in zip(term, x.shape):
                    if size is not sizes[label]:
                        yield size == sizes[label]

    def type_transfer(self, *inputs):
        sizes = self._sizes(inputs)
        return [inputs[0].with_shape([sizes[label] for label in self._fitting_labels(inputs).out])]

    def complete(self, draw, first, dtypes):
        labels = self._of_ranks(ranks(self.equation, first.rank))
        others = self._fitting(draw, labels, dict(zip(labels.terms[0], first.shape)), dtypes[0])
        return [first, *others[1:]]

    @classmethod
    def input_rank(cls, draw, output_rank):
        return draw.integer(1, min(5, output_rank + 2))

    @classmethod
    def draw_backward(cls, draw, first, output):
        return cls(equation=random_equation(draw, first.rank, output.rank))

    def infer_input_types(self, draw, first, dtypes, output):
        labels = self._of_ranks(ranks(self.equation, first.rank))
        sizes = {**dict(zip(labels.terms[0], first.shape)), **dict(zip(labels.out, output.shape))}
        return self._fitting(draw, labels, sizes, dtypes[0])

    def _fitting(self, draw, labels, sizes, dtype):
        """Types of all operands, with fresh sizes for labels that have none."""
        types = []
        for term in labels.terms:
            shape = [sizes.setdefault(a, draw.dim(len(term))) for a in term]
            types.append(TensorType(dtype, tuple(shape)))
        return types

    def cost(self, *inputs):
        return len(inputs) * product(self._sizes(inputs).values())

    def torch(self, *xs):
        """PyTorch 2.13 adds int32 in int64 in some places and then rejects the mixed types."""
        if xs[0].dtype is torch.int32:
            return torch.einsum(self.equation, *[x.long() for x in xs]).int()
        return torch.einsum(self.equation, *xs)

    def terms(self, *xs):
        sizes = self._sizes(xs)
        return math.prod(sizes[label] for label in self._labels(xs).summed)

    def value_range(self, *ranges):
        return summed(*ranges)

    def undefined(self, *intervals):
        """Integer sums that may overflow, which ONNX does not define."""
        if intervals[0].lo.is_floating_point():
            return None
        whole = torch.einsum(self.equation, *[b.far().double().abs() for b in intervals])
        return whole > float(torch.iinfo(intervals[0].lo.dtype).max)

    def interval(self, *intervals):
        return [linear(self.torch, *intervals, weights=range(len(intervals)))]

    def _grown(self, xs):
        """Upper bound of partial products of three operands in any order."""
        return self.torch(*[x.abs().clamp(min=1) for x in xs])

    def domain(self, *xs):
        if len(xs) < 3 or not xs[0].is_floating_point():
            return super().domain(*xs)
        return [self._grown(xs) - largest(xs[0]) / 2]

    def radius(self, u, y, *xs):
        terms = self.terms(*xs) + 2 * (len(xs) - 1)
        if len(xs) < 3:
            partial = by_squares(self.torch(*[x * x for x in xs]), terms)
            return sum_radius(u, terms, self.absolute(*xs), y, partial=partial)
        # Sums of some factors come first, and are not partial sums of the whole.
        radius = sum_radius(u, terms + 2, self.absolute(*xs))
        return radius + terms * underflow(u) * self._grown(xs)


LARGEST = 16
"""Most rows of a matrix; from 20 on, a float32 determinant may consist of rounding errors."""


@operator
class Det(OpSpec):
    """Determinants of the matrices of the last two axes. Source: ONNX Det-11."""

    inputs = (In("T", (DType.FLOAT32, DType.FLOAT64), (2, 5)),)

    def requires(self, x):
        yield x.shape[-1] == x.shape[-2]
        yield x.shape[-1] <= LARGEST

    def type_transfer(self, x):
        return [x.with_shape(x.shape[:-2])]

    @classmethod
    def input_rank(cls, draw, output_rank):
        return output_rank + 2 if output_rank <= 3 else None

    def infer_input_types(self, draw, first, dtypes, output):
        size = first.shape[-1]
        return [TensorType(dtypes[0], (*output.shape, size, size))]

    def torch(self, x):
        return torch.det(x)

    def domain(self, x):
        """The product of the row norms, each at least 1, must be finite (Hadamard's inequality)."""
        logs = torch.linalg.vector_norm(x, dim=-1).clamp(min=1).log().sum(-1)
        return [logs + x.shape[-1] * math.log(2) - math.log(largest(x))]

    def value_range(self, x):
        """A matrix of equal elements is singular unless it has one element."""
        return (min(x[0], 0.0), max(x[1], 0.0)) if x[0] == x[1] else ANY_RANGE

    def radius(self, u, y, x):
        """In elimination with pivoting, each element is off by n u times the largest of its row."""
        return 4 * u * x.shape[-1] ** 2 * torch.linalg.vector_norm(x, dim=-1).prod(-1)

    def interval(self, x):
        """The determinant is linear in each row, so rows that change by e change it by at most the
        growth of the product of norms."""
        centre, r = (x.lo + x.hi) * 0.5, (x.hi - x.lo) * 0.5
        y, norms, moved = (
            torch.det(centre),
            *(torch.linalg.vector_norm(v, dim=-1) for v in (centre, r)),
        )
        spread = (norms + moved).prod(-1) * (1 + 2.0**-40) - norms.prod(-1)
        mask = None if x.any is None else x.any.flatten(-2).any(-1)
        return [Interval(y - spread, y + spread, mask)]
