"""Elementwise operators of any number of tensors, beyond the arithmetic ones."""

from __future__ import annotations

from nnfuzz.opspecs.arithmetic import Sum

from nnfuzz.spec.operator import operator


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
