"""Inverses of matrices."""

from __future__ import annotations

import math

import torch

from nnfuzz.ir.dtypes import DType
from nnfuzz.operators.intervals import Interval
from nnfuzz.operators.operator import In, OpSpec
from nnfuzz.operators.rounding import underflow

from ..dense import LARGEST
from . import microsoft

CONDITION = 64.0
"""Greatest product of the norms of a matrix and its inverse."""


def inverse(x):
    """The inverses of matrices, with infinities or NaN where a matrix has none."""
    if x.dtype is torch.float16:  # PyTorch has no inverse of those
        return torch.linalg.inv_ex(x.float()).inverse.half()
    return torch.linalg.inv_ex(x).inverse


@microsoft
class Inverse(OpSpec):
    """The inverses of the matrices of the last two axes. Source: com.microsoft.Inverse-1."""

    weight = 2.0  # few matrices are square
    inputs = (In("T", (DType.FLOAT32, DType.FLOAT64, DType.FLOAT16), (2, 5)),)

    def requires(self, x):
        yield x.shape[-1] == x.shape[-2]
        yield x.shape[-1] <= LARGEST

    def torch(self, x):
        return inverse(x)

    def domain(self, x):
        """Matrices of numbers of usual size that are far from having no inverse."""
        norms = [y.abs().sum(-1).amax(-1) for y in (x, inverse(x))]
        return [norms[0] * norms[1] - CONDITION, *(norm - 2.0**12 for norm in norms)]

    def radius(self, u, y, x):
        """In elimination with pivoting, each element is off by n u times the largest one."""
        n = x.shape[-1]
        error = (4 * u * n * n * x.abs().amax((-2, -1), keepdim=True)).expand_as(x)
        return self._moved(y, error) + 4 * u * y.abs() + n * underflow(u)

    def _moved(self, y, error):
        """Upper bound of the change of inverses y if elements of the matrices change by `error`."""
        near = y.abs() @ error
        least = near.sum(-1).amax(-1)[..., None, None]
        bound = inverse(torch.eye(y.shape[-1], dtype=y.dtype) - near) @ near @ y.abs()
        return torch.where(least < 0.5, bound, math.inf)

    def interval(self, x):
        centre, r = (x.lo + x.hi) / 2, (x.hi - x.lo) / 2
        y = inverse(centre)
        spread = self._moved(y, r) if not x.exact else torch.zeros_like(y)
        mask = x.mask().flatten(-2).any(-1)[..., None, None] | ~spread.isfinite() | ~y.isfinite()
        lo, hi = (torch.where(mask, 0.0, y + sign * spread) for sign in (-1, 1))
        return [Interval(lo, hi, mask)]
