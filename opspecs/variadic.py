"""Elementwise operators of any number of tensors."""

from __future__ import annotations

import functools
from collections.abc import Callable

import torch

from nnfuzz.ir.dtypes import FLOATS
from nnfuzz.operators.families.elementwise import Variadic, too_large
from nnfuzz.operators.operator import In, operator


class Folded(Variadic):
    """Base of folds over tensors by a step that grows with both operands; `of_ends` is the step for
    numbers."""

    monotone = (1,)
    whole = "kept"
    step: Callable[..., torch.Tensor] = staticmethod(torch.add)
    of_ends: Callable[..., float] = staticmethod(sum)

    def torch(self, *xs):
        return functools.reduce(self.step, xs)

    def value_range(self, *xs):
        return self.of_ends(lo for lo, _ in xs), self.of_ends(hi for _, hi in xs)


@operator
class Min(Folded):
    merges = ("Min", "Max")
    step = staticmethod(torch.minimum)
    of_ends = staticmethod(min)


@operator
class Max(Folded):
    merges = ("Max", "Min")
    leaves_out = True
    step = staticmethod(torch.maximum)
    of_ends = staticmethod(max)


@operator
class Sum(Folded):
    inputs = (In("T", FLOATS),)
    exactness = "sum"
    joining = "term"

    def domain(self, *xs):
        return too_large(sum(x.abs() for x in xs))

    def radius(self, u, y, *xs):
        if len(xs) == 1:
            return 0.0
        # Partial sums lie between the sums of the negative and of the positive numbers.
        return (len(xs) - 1) * u * (sum(x.abs() for x in xs) + y.abs()) / 2


@operator
class Mean(Sum):
    """The sum divided by the number of tensors. Source: ONNX Mean-13."""

    exactness = whole = ""

    def torch(self, *xs):
        return super().torch(*xs) / len(xs)

    def value_range(self, *xs):
        lo, hi = super().value_range(*xs)
        return lo / len(xs), hi / len(xs)

    def radius(self, u, y, *xs):
        return super().radius(u, y * len(xs), *xs) / len(xs) + 2 * u * y.abs()
