"""Elementwise operators of any number of tensors."""

from __future__ import annotations

import functools

import torch

from nnfuzz.ir.dtypes import FLOATS
from nnfuzz.spec.families.elementwise import Variadic, too_large
from nnfuzz.spec.operator import In, operator


@operator
class Min(Variadic):
    monotone = (1,)

    def torch(self, *xs):
        return functools.reduce(torch.minimum, xs)

    def value_range(self, *xs):
        return min(lo for lo, _ in xs), min(hi for _, hi in xs)


@operator
class Max(Variadic):
    monotone = (1,)

    def torch(self, *xs):
        return functools.reduce(torch.maximum, xs)

    def value_range(self, *xs):
        return max(lo for lo, _ in xs), max(hi for _, hi in xs)


@operator
class Sum(Variadic):
    inputs = (In("T", FLOATS),)
    monotone = (1,)
    exactness = "sum"

    def torch(self, *xs):
        return functools.reduce(torch.add, xs)

    def domain(self, *xs):
        return too_large(sum(x.abs() for x in xs))

    def value_range(self, *xs):
        return sum(lo for lo, _ in xs), sum(hi for _, hi in xs)

    def radius(self, u, y, *xs):
        return max(2, len(xs) - 1) * u * sum(x.abs() for x in xs) if len(xs) > 1 else 0.0


@operator
class Mean(Sum):
    """The sum, divided by the number of tensors. Source: ONNX Mean-13."""

    exactness = ""

    def torch(self, *xs):
        return super().torch(*xs) / len(xs)

    def value_range(self, *xs):
        lo, hi = super().value_range(*xs)
        return lo / len(xs), hi / len(xs)

    def radius(self, u, y, *xs):
        return super().radius(u, y, *xs) / len(xs) + 2 * u * y.abs()
