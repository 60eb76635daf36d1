"""Comparisons, boolean logic and selection."""

from __future__ import annotations

import torch

from nnfuzz.ir.dtypes import ALL, BOOLS
from nnfuzz.spec.families.elementwise import Binary, Broadcasting, Comparison, Unary
from nnfuzz.spec.operator import In, operator


@operator
class Equal(Comparison):
    inputs = (In("T", ALL), In("T"))
    torch = staticmethod(torch.eq)


@operator
class Greater(Comparison):
    torch = staticmethod(torch.gt)


@operator
class Less(Comparison):
    torch = staticmethod(torch.lt)


@operator
class GreaterOrEqual(Comparison):
    torch = staticmethod(torch.ge)


@operator
class LessOrEqual(Comparison):
    torch = staticmethod(torch.le)


class Logical(Binary):
    """Booleans in, booleans out."""

    inputs = (In("T", BOOLS), In("T"))
    codomain = (0, 1)


@operator
class And(Logical):
    torch = staticmethod(torch.logical_and)


@operator
class Or(Logical):
    torch = staticmethod(torch.logical_or)


@operator
class Xor(Logical):
    torch = staticmethod(torch.logical_xor)


@operator
class Not(Unary):
    inputs = (In("T", BOOLS),)
    torch = staticmethod(torch.logical_not)
    codomain = (0, 1)


@operator
class Where(Broadcasting):
    inputs = (In("B", BOOLS), In("T", ALL), In("T"))
    torch = staticmethod(torch.where)

    def value_range(self, condition, x, y):
        return min(x[0], y[0]), max(x[1], y[1])
