"""Elementwise arithmetic."""

from __future__ import annotations

import torch

from nnfuzz.ir.dtypes import NUMBERS, SIGNED, FLOATS
from nnfuzz.spec.families.elementwise import Binary, Unary
from nnfuzz.spec.operator import In, operator


@operator
class Abs(Unary):
    inputs = (In("T", NUMBERS),)

    def torch(self, x):
        return torch.abs(x)


@operator
class Neg(Unary):
    inputs = (In("T", (*FLOATS, *SIGNED)),)

    def torch(self, x):
        return torch.neg(x)


@operator
class Sin(Unary):
    def torch(self, x):
        return torch.sin(x)


@operator
class Add(Binary):
    def torch(self, x, y):
        return torch.add(x, y)


@operator
class Mul(Binary):
    def torch(self, x, y):
        return torch.mul(x, y)
