"""Sums of products along labelled axes; determinants."""

from __future__ import annotations

import math

import torch

from nnfuzz.ir.dtypes import FLOATS, DType
from nnfuzz.ir.expr import Int, product
from nnfuzz.ir.types import TensorType
from nnfuzz.operators.attributes import Choice
from nnfuzz.operators.families.equation import labels_of, random_equation, ranks
from nnfuzz.operators.families.sums import Summing, largest, summed
from nnfuzz.operators.intervals import Interval, linear
from nnfuzz.operators.operator import ANY_RANGE, ConstraintError, In, OpSpec, operator
from nnfuzz.operators.rounding import by_squares, sum_radius, underflow


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

    def cost(self, x):
        return x.numel * x.shape[-1]

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
